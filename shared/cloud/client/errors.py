"""Translate botocore's errors into the Dovetail family, so that nobody above this folder knows
botocore.

The order of the checks matters: a throttled call is also an HTTP 400 or 503, a denied call an HTTP
403. Every error carries ``code`` (the AWS error code), ``operation`` and ``request_id`` as context.

What may go wrong: AWS invents codes. An unknown code on a launching call becomes ``LaunchRejected``
(needs other parameters); on any other call the plain ``DovetailError``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.parsers import ResponseParserError

from shared.errors import (
    AlreadyExists,
    ConfigurationError,
    DovetailError,
    InsufficientCapacity,
    LaunchRejected,
    NotFound,
    Throttled,
    Unauthorized,
    Unavailable,
    Unreachable,
)

CAPACITY_CODES = frozenset(
    {
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    }
)
"""LCH-60: EC2 has none of this offering now; another offering may work."""

IDEMPOTENT_PARAMETER_MISMATCH = "IdempotentParameterMismatch"
"""The client token was used with other parameters: never resend, look the instances up by tag (F1).
"""

IDEMPOTENT_INSTANCE_TERMINATED = "IdempotentInstanceTerminated"
"""The instance that this client token started is gone: start a new attempt (F1)."""

SPOT_ROLE_MISSING = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
"""LCH-63: the account has no role for spot, and we may not create it."""

THROTTLING_CODES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "PriorRequestNotComplete",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
NOT_FOUND_CODES = frozenset(
    {
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "InvalidCapacityReservationId.NotFound",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchEntity",
        "ParameterNotFound",
        "ResourceNotFoundException",
    }
)
"""LCH-66, and what SQS (query protocol) and EKS say for the same thing."""

Json = dict[str, Any]
_DENIED_CODES = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})
_CREDENTIAL_CODES = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_UNAVAILABLE_CODES = frozenset(
    {
        "ConcurrentModification",  # IAM: somebody else changes the same thing now
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "ServiceUnavailable",
        "Unavailable",
    }
)
CREDENTIALS_FIX = (
    "give this process AWS credentials: an IAM role for its service account "
    "(EKS Pod Identity or IRSA), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


def is_capacity_error(code: str) -> bool:
    """LCH-60: true when the offering is short, not the request wrong."""
    return code in CAPACITY_CODES


def is_not_found(code: str) -> bool:
    """LCH-66, extended to every ``Invalid<Thing>.NotFound``."""
    return code in NOT_FOUND_CODES or code.endswith((".NotFound", ".NotFoundException"))


def from_client_error(
    error: ClientError, *, permission: str, launching: bool = False
) -> DovetailError:
    """The family member for an error answer. ``permission`` is the IAM action's name."""
    details = error.response.get("Error", {})
    metadata = error.response.get("ResponseMetadata", {})
    code = str(details.get("Code") or "Unknown")
    if code == "Unknown" or code.isdecimal():
        return _not_of_aws(permission, metadata, details)
    text = f"{permission} failed with {code}: {details.get('Message', '')}"
    context: dict[str, Any] = {
        "code": code,
        "operation": permission,
        "request_id": metadata.get("RequestId", ""),
    }
    status = int(metadata.get("HTTPStatusCode", 0))
    if code in THROTTLING_CODES or status == 429:
        return Throttled(text, **context)
    if is_not_found(code):
        return NotFound(text, **context)
    if is_capacity_error(code):
        return InsufficientCapacity(text, **context)
    if code.endswith(("AlreadyExists", "AlreadyExistsException", ".Duplicate")):
        return AlreadyExists(text, **context)
    denied = _denial(code, status, text, permission)
    if denied is not None:
        return Unauthorized(denied, **context)
    if code in _UNAVAILABLE_CODES or status >= 500:
        return Unavailable(text, **context)
    return LaunchRejected(text, **context) if launching else DovetailError(text, **context)


def _not_of_aws(permission: str, metadata: Json, details: Json) -> DovetailError:
    """AWS gives each of its errors a code: a proxy refused this, and what became of the call is unknown."""
    status = int(metadata.get("HTTPStatusCode", 0))
    text = (
        f"{permission} was answered with HTTP status {status} and no error code of AWS: see what "
        f"proxy is in between ({str(details.get('Message') or '')[:200]})"
    )
    kind = Throttled if status == 429 else Unavailable
    return kind(text, code="Unknown", operation=permission, request_id="")


def _denial(code: str, status: int, text: str, permission: str) -> str | None:
    if code == SPOT_ROLE_MISSING:
        return (
            f"{text}: create the role once with "
            "`aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`"
        )
    if code in _CREDENTIAL_CODES:
        return f"{text}: check this machine's clock, and {CREDENTIALS_FIX}"
    if code in _DENIED_CODES or status == 403:
        return f"{text}: allow {permission} in the policy of this process's IAM role"
    return None


def from_transport_error(
    error: BaseException, *, permission: str, launching: bool = False
) -> DovetailError:
    """The family member for a call without a usable answer."""
    text = f"{permission} failed: {error}"
    context = {"operation": permission, "code": type(error).__name__}
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return Unauthorized(f"{text}: {CREDENTIALS_FIX}", **context)
    if isinstance(error, ParamValidationError):
        return LaunchRejected(text, **context) if launching else DovetailError(text, **context)
    if isinstance(error, ResponseParserError):
        return Unavailable(text, **context)
    if isinstance(error, HTTPClientError | ConnectionError | TimeoutError | OSError):
        return Unreachable(text, **context)
    return DovetailError(text, **context)


def status_of(error: DovetailError) -> int:
    """The HTTP status of the answer that ``error`` stands for; 0: there was none."""
    cause = error.__cause__
    metadata = cause.response.get("ResponseMetadata", {}) if isinstance(cause, ClientError) else {}
    return int(metadata.get("HTTPStatusCode", 0))


@contextmanager
def translated(permission: str, *, launching: bool = False) -> Iterator[None]:
    """Raise the Dovetail error for whatever botocore raises inside."""
    try:
        yield
    except ClientError as error:
        raise from_client_error(error, permission=permission, launching=launching) from error
    except (BotoCoreError, ResponseParserError, TimeoutError, OSError) as error:
        raise from_transport_error(error, permission=permission, launching=launching) from error


def missing_region() -> ConfigurationError:
    """For an empty region."""
    return ConfigurationError(
        "AWS_REGION is not set: set it to the cluster's region, for example us-west-2"
    )


def missing_credentials() -> ConfigurationError:
    """For a credential chain that came up empty."""
    return ConfigurationError(f"no AWS credentials found: {CREDENTIALS_FIX}")
