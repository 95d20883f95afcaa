"""Translates botocore's errors into Dovetail's errors, so that no module outside this folder depends on botocore.

The order of the checks matters: a throttled call is also an HTTP 400 or 503, a denied call an HTTP
403. Every error carries ``code`` (the AWS error code), ``operation`` and ``request_id`` as context.

What may go wrong: AWS adds codes. An unknown code of a launching call becomes ``LaunchRejected``
(other parameters are needed), of any other call a plain ``DovetailError``.
"""

from __future__ import annotations

import re
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

from shared import errors

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
"""EC2 has no capacity for this offering now; another offering may work (LCH-60)."""

IDEMPOTENT_PARAMETER_MISMATCH = "IdempotentParameterMismatch"
"""The client token was used with other parameters: never resend, find the instances by their tags (F1)."""

IDEMPOTENT_INSTANCE_TERMINATED = "IdempotentInstanceTerminated"
"""The instance that this client token started is gone: start a new attempt (F1)."""

SPOT_ROLE_MISSING = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
"""The account has no service-linked role for spot, and this process may not create it (LCH-63)."""

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
"""LCH-66, and the codes of SQS (query protocol), IAM, SSM and EKS for an absent resource."""

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
        "ConcurrentModification",  # IAM: another request changes the same resource now
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "ServiceUnavailable",
        "Unavailable",
    }
)
_REFUSED_ACTION = re.compile(r"is not authorized to perform: ([a-z0-9-]{1,40}:[A-Za-z]{1,80})")
_EXPLICIT_DENY = re.compile(r"with an explicit deny in an? ([a-z -]{1,40})")
_NO_POLICY = re.compile(r"because no ([a-z -]{1,40}) allows the ")
CREDENTIALS_FIX = (
    "give this process AWS credentials: an IAM role for its service account "
    "(EKS Pod Identity or IRSA), or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


def is_capacity_error(code: str) -> bool:
    """Whether the offering has no capacity, rather than the request being wrong (LCH-60)."""
    return code in CAPACITY_CODES


def is_not_found(code: str) -> bool:
    """Whether the resource does not exist: LCH-66, extended to every ``Invalid<Thing>.NotFound``."""
    return code in NOT_FOUND_CODES or code.endswith((".NotFound", ".NotFoundException"))


def from_client_error(
    error: ClientError, *, permission: str, launching: bool = False
) -> errors.DovetailError:
    """The Dovetail error for an error answer. ``permission`` is the IAM action's name."""
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
        return errors.Throttled(text, **context)
    if is_not_found(code):
        return errors.NotFound(text, **context)
    if is_capacity_error(code):
        return errors.InsufficientCapacity(text, **context)
    if code.endswith(("AlreadyExists", "AlreadyExistsException", ".Duplicate")):
        return errors.AlreadyExists(text, **context)
    denied = _denial(code, status, text, permission)
    if denied is not None:
        return errors.Unauthorized(denied, **context)
    if code in _UNAVAILABLE_CODES or status >= 500:
        return errors.Unavailable(text, **context)
    return (
        errors.LaunchRejected(text, **context)
        if launching
        else errors.DovetailError(text, **context)
    )


def _not_of_aws(permission: str, metadata: Json, details: Json) -> errors.DovetailError:
    """The error for an answer without an error code: AWS always sends one, so the outcome is unknown."""
    status = int(metadata.get("HTTPStatusCode", 0))
    text = (
        f"{permission} was answered with HTTP status {status} and no error code of AWS: check the proxies "
        f"between Dovetail and AWS ({str(details.get('Message') or '')[:200]})"
    )
    kind = errors.Throttled if status == 429 else errors.Unavailable
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
        return f"{text}: {_permission_fix(text, permission)}"
    return None


def _permission_fix(text: str, permission: str) -> str:
    """AWS names the action that it refused, often another than the call's (``iam:PassRole``), and whose policy did."""
    action = _REFUSED_ACTION.search(text)
    denying, lacking = _EXPLICIT_DENY.search(text), _NO_POLICY.search(text)
    named = action[1] if action else permission
    if denying:
        return f"remove the deny of {named} from the {denying[1]}"
    if lacking and lacking[1] != "identity-based policy":
        return f"allow {named} in the {lacking[1]}"
    return f"allow {named} in the policy of this process's IAM role"


def from_transport_error(
    error: BaseException, *, permission: str, launching: bool = False
) -> errors.DovetailError:
    """The Dovetail error for a call without a usable answer."""
    text = f"{permission} failed: {error}"
    context = {"operation": permission, "code": type(error).__name__}
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return errors.Unauthorized(f"{text}: {CREDENTIALS_FIX}", **context)
    if isinstance(error, ParamValidationError):
        return (
            errors.LaunchRejected(text, **context)
            if launching
            else errors.DovetailError(text, **context)
        )
    if isinstance(error, ResponseParserError):
        return errors.Unavailable(text, **context)
    if isinstance(error, HTTPClientError | ConnectionError | TimeoutError | OSError):
        return errors.Unreachable(text, **context)
    return errors.DovetailError(text, **context)


def status_of(error: errors.DovetailError) -> int:
    """The HTTP status of the answer behind ``error``; 0 when there was no answer."""
    cause = error.__cause__
    metadata = cause.response.get("ResponseMetadata", {}) if isinstance(cause, ClientError) else {}
    return int(metadata.get("HTTPStatusCode", 0))


@contextmanager
def translated(permission: str, *, launching: bool = False) -> Iterator[None]:
    """Translate the errors that botocore raises inside this block."""
    try:
        yield
    except ClientError as error:
        raise from_client_error(error, permission=permission, launching=launching) from error
    except (BotoCoreError, ResponseParserError, TimeoutError, OSError) as error:
        raise from_transport_error(error, permission=permission, launching=launching) from error


def missing_region() -> errors.ConfigurationError:
    """The error for an empty region."""
    return errors.ConfigurationError(
        "AWS_REGION is not set: set it to the cluster's region, for example us-west-2"
    )


def missing_credentials() -> errors.ConfigurationError:
    """The error for a credential chain without credentials."""
    return errors.ConfigurationError(f"no AWS credentials found: {CREDENTIALS_FIX}")
