"""AWS error codes in the Dovetail family."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from shared.cloud.client.errors import CAPACITY_CODES, is_capacity_error, translated
from shared.errors import (
    AlreadyExists,
    DovetailError,
    InsufficientCapacity,
    LaunchRejected,
    NotFound,
    Throttled,
    TransientError,
    Unauthorized,
    Unavailable,
    Unreachable,
)


def answer(code: str, status: int = 400, message: str = "why") -> ClientError:
    metadata = {"HTTPStatusCode": status, "RequestId": "r-1"}
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}, "CreateFleet"
    )


def translate(error: Exception, *, launching: bool = False) -> DovetailError:
    with (
        pytest.raises(DovetailError) as raised,
        translated("ec2:CreateFleet", launching=launching),
    ):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(
    ("code", "status", "family"),
    [
        ("RequestLimitExceeded", 503, Throttled),
        ("Throttling", 400, Throttled),
        ("Whatever", 429, Throttled),
        ("InvalidInstanceID.NotFound", 400, NotFound),
        ("InvalidLaunchTemplateName.NotFoundException", 400, NotFound),
        ("InvalidLaunchTemplateId.NotFound", 400, NotFound),
        ("InvalidCapacityReservationId.NotFound", 400, NotFound),
        ("QueueDoesNotExist", 400, NotFound),
        ("AWS.SimpleQueueService.NonExistentQueue", 400, NotFound),
        ("NoSuchEntity", 404, NotFound),
        ("ParameterNotFound", 400, NotFound),
        ("InvalidSubnetID.NotFound", 400, NotFound),
        ("InvalidLaunchTemplateName.AlreadyExistsException", 400, AlreadyExists),
        ("UnauthorizedOperation", 403, Unauthorized),
        ("AccessDeniedException", 400, Unauthorized),
        ("ExpiredToken", 400, Unauthorized),
        ("InternalError", 500, Unavailable),
        ("SomethingNew", 503, Unavailable),
        ("Unavailable", 503, Unavailable),
        ("SomethingNew", 400, DovetailError),
    ],
)
def test_codes_map_to_the_family(code: str, status: int, family: type[DovetailError]) -> None:
    """LCH-66: codes for not found; F17: throttling by EC2."""
    error = translate(answer(code, status))
    assert type(error) is family
    assert error.context == {"code": code, "operation": "ec2:CreateFleet", "request_id": "r-1"}


@pytest.mark.parametrize("code", sorted(CAPACITY_CODES))
def test_every_capacity_code_means_insufficient_capacity(code: str) -> None:
    """LCH-60: codes for no capacity."""
    assert is_capacity_error(code)
    assert isinstance(translate(answer(code)), InsufficientCapacity)


@pytest.mark.parametrize(
    "code", ["IdempotentParameterMismatch", "IdempotentInstanceTerminated", "InvalidParameter"]
)
def test_a_refused_launch_keeps_its_code(code: str) -> None:
    """F1: the launcher tells a spent token from wrong parameters by the code."""
    error = translate(answer(code), launching=True)
    assert isinstance(error, LaunchRejected)
    assert error.context["code"] == code


def test_a_denied_call_names_the_permission_to_grant() -> None:
    error = translate(answer("UnauthorizedOperation", 403))
    assert "allow ec2:CreateFleet" in error.message


@pytest.mark.parametrize(
    ("cause", "fix"),
    [
        (
            "because no identity-based policy allows the iam:PassRole action",
            "allow iam:PassRole in the policy of this process's IAM role",
        ),
        (
            "because no permissions boundary allows the iam:PassRole action",
            "allow iam:PassRole in the permissions boundary",
        ),
        (
            "with an explicit deny in a service control policy",
            "remove the deny of iam:PassRole from the service control policy",
        ),
        ("", "allow iam:PassRole in the policy of this process's IAM role"),
    ],
)
def test_a_denied_call_names_the_action_and_the_policy_that_aws_names(cause: str, fix: str) -> None:
    """``CreateFleet`` is refused for ``iam:PassRole`` or ``ec2:CreateTags`` too: to allow CreateFleet mends nothing."""
    text = f"User: arn:aws:sts::1:assumed-role/a/b is not authorized to perform: iam:PassRole on resource: c {cause}"
    error = translate(answer("UnauthorizedOperation", 403, text))
    assert error.message.endswith(f": {fix}")


def test_wrong_credentials_are_not_reported_as_a_missing_permission() -> None:
    assert "clock" in translate(answer("SignatureDoesNotMatch", 403)).message


def test_a_missing_spot_role_says_how_to_create_it() -> None:
    """LCH-63: the missing role for spot."""
    error = translate(answer("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 403))
    assert isinstance(error, Unauthorized)
    assert "create-service-linked-role" in error.message


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="x"),
        ConnectTimeoutError(endpoint_url="x"),
        EndpointConnectionError(endpoint_url="x"),
        HTTPClientError(error="cut"),
        TimeoutError(),
        ConnectionResetError(),
    ],
)
def test_no_answer_means_the_outcome_is_unknown(error: Exception) -> None:
    assert type(translate(error)) is Unreachable


def test_an_answer_that_is_not_aws_means_unavailable() -> None:
    """moto and load balancers answer HTML."""
    assert isinstance(translate(ResponseParserError("html")), Unavailable)


def test_missing_credentials_say_how_to_give_them() -> None:
    error = translate(NoCredentialsError())
    assert isinstance(error, Unauthorized)
    assert "AWS_ACCESS_KEY_ID" in error.message


def test_a_request_that_botocore_refuses_is_not_repeated() -> None:
    report = ParamValidationError(report="missing field")
    assert isinstance(translate(report, launching=True), LaunchRejected)
    assert not isinstance(translate(report), TransientError)


def test_our_own_errors_pass_unchanged() -> None:
    with pytest.raises(ValueError, match="mine"), translated("ec2:CreateFleet"):
        raise ValueError("mine")
