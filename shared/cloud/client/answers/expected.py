"""The AWS operations that Dovetail calls, and the required elements of each answer.

An answer without them was not written by AWS, or was truncated: the outcome of the call is then unknown. Service models
are reduced to this table too (``shared.cloud.client.models``): an operation without a row here cannot be called.

A path names elements from the top of the answer: ``A.B`` is B in the structure A; ``A[].B`` is B in each item of the
list A, which may be empty or absent. The last element of a path must be present, and a string must not be empty.

What may go wrong: some JSON services of AWS omit empty lists. List only elements that AWS always writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_INSTANCES = "Reservations[].Instances[]"
_CREDENTIALS = tuple(
    f"Credentials.{name}"
    for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
)


def _template(at: str) -> tuple[str, ...]:
    names = ("LaunchTemplateId", "LaunchTemplateName", "LatestVersionNumber")
    return tuple(f"{at}.{name}" for name in names)


def _profile(at: str) -> tuple[str, ...]:
    return (f"{at}.InstanceProfileName", f"{at}.Roles[].RoleName")


Paths = tuple[str, ...]
EXPECTED: Mapping[str, Mapping[str, Paths]] = {
    "ec2": {
        "CreateFleet": ("FleetId", "Instances[].InstanceIds", "Errors[].ErrorCode"),
        "CreateLaunchTemplate": _template("LaunchTemplate"),
        "CreateTags": (),
        "DeleteLaunchTemplate": (),
        "DescribeAvailabilityZones": ("AvailabilityZones",),
        "DescribeCapacityReservations": (
            "CapacityReservations",
            "CapacityReservations[].CapacityReservationId",
        ),
        "DescribeImages": ("Images", "Images[].ImageId"),
        "DescribeInstanceStatus": ("InstanceStatuses",),
        "DescribeInstanceTypeOfferings": ("InstanceTypeOfferings",),
        "DescribeInstanceTypes": ("InstanceTypes",),
        "DescribeInstances": (
            "Reservations",
            f"{_INSTANCES}.InstanceId",
            f"{_INSTANCES}.State.Name",
            f"{_INSTANCES}.SecurityGroups[].GroupId",
            f"{_INSTANCES}.Tags[].Key",
        ),
        "DescribeLaunchTemplateVersions": (
            "LaunchTemplateVersions",
            "LaunchTemplateVersions[].LaunchTemplateData",
        ),
        "DescribeLaunchTemplates": ("LaunchTemplates", *_template("LaunchTemplates[]")),
        "DescribePlacementGroups": ("PlacementGroups",),
        "DescribeSecurityGroups": ("SecurityGroups", "SecurityGroups[].GroupId"),
        "DescribeSnapshots": ("Snapshots", "Snapshots[].SnapshotId", "Snapshots[].VolumeSize"),
        "DescribeSpotPriceHistory": ("SpotPriceHistory",),
        "DescribeSubnets": ("Subnets", "Subnets[].SubnetId", "Subnets[].AvailabilityZone"),
        "RunInstances": ("Instances",),
        "TerminateInstances": ("TerminatingInstances", "TerminatingInstances[].InstanceId"),
    },
    "ssm": {"GetParameter": ("Parameter.Value",)},
    "eks": {
        # A cluster that is still being created lacks some of these: no node could join it.
        "DescribeCluster": (
            "cluster.version",
            "cluster.endpoint",
            "cluster.certificateAuthority.data",
        ),
    },
    "iam": {
        "AddRoleToInstanceProfile": (),
        "CreateInstanceProfile": _profile("InstanceProfile"),
        "DeleteInstanceProfile": (),
        "GetInstanceProfile": _profile("InstanceProfile"),
        "ListInstanceProfiles": ("InstanceProfiles", *_profile("InstanceProfiles[]")),
        "RemoveRoleFromInstanceProfile": (),
    },
    "pricing": {"GetProducts": ("PriceList",)},
    "sqs": {
        "ChangeMessageVisibility": (),
        "ChangeMessageVisibilityBatch": ("Successful", "Successful[].Id", "Failed[].Id"),
        "DeleteMessage": (),
        "DeleteMessageBatch": ("Successful", "Successful[].Id", "Failed[].Id"),
        "GetQueueAttributes": ("Attributes",),
        "GetQueueUrl": ("QueueUrl",),
        "ReceiveMessage": ("Messages[].MessageId", "Messages[].ReceiptHandle"),
    },
    "arc-zonal-shift": {"GetManagedResource": ("zonalShifts",)},
    "events": {
        "DescribeRule": ("Name",),
        "ListRuleNamesByTarget": ("RuleNames",),
    },
    "autoscaling": {
        "CompleteLifecycleAction": (),
        "DescribeLifecycleHooks": ("LifecycleHooks",),
        "DescribeTags": ("Tags",),
        "RecordLifecycleActionHeartbeat": (),
    },
}
"""Service -> AWS's name of the operation -> required paths."""
_OF_THE_LIBRARY = {"AssumeRole": _CREDENTIALS, "AssumeRoleWithWebIdentity": _CREDENTIALS}
"""STS calls that the client library makes by itself."""
_BY_OPERATION = {
    **_OF_THE_LIBRARY,
    **{name: paths for rows in EXPECTED.values() for name, paths in rows.items()},
}


def missing(operation: str, answer: Mapping[str, Any]) -> str | None:
    """The first required path that the answer lacks; None for a complete answer and for an unknown operation."""
    return next(
        (path for path in _BY_OPERATION.get(operation, ()) if not _is_there(answer, path)), None
    )


def _is_there(answer: Mapping[str, Any], path: str) -> bool:
    *parents, last = path.split(".")
    found: list[Any] = [answer]
    for parent in parents:
        found = [inner for outer in found for inner in _inside(outer, parent)]
    return all(isinstance(one, Mapping) and one.get(last) not in (None, "") for one in found)


def _inside(outer: Any, part: str) -> Iterator[Any]:
    """The structure of this name, or every item of the list ``name[]``."""
    name = part.removesuffix("[]")
    inner = outer.get(name) if isinstance(outer, Mapping) else None
    if name == part:
        yield inner
    else:
        yield from inner or ()
