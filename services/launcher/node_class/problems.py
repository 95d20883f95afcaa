"""What may be wrong with a node class: a condition that is False, a reason, and a sentence; and whether its volumes are
as large as what is to be on them, or EC2 would refuse every launch: pure (EC-12, EC-16, EC-17, T-09).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from services.launcher.launch_template.content import volumes
from services.launcher.resolved_class import BootImage
from shared.cloud.ec2.records import (
    CapacityReservation,
    Image,
    LaunchTemplate,
    PlacementGroup,
    SecurityGroup,
    Subnet,
)
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject, Unauthorized

Found = TypeVar("Found")
TOO_SMALL, NO_SNAPSHOT = "VolumeTooSmall", "SnapshotNotFound"
VOLUMES_FIELD = "spec.blockDeviceMappings"


class Part(StrEnum):
    """The parts of a class, each with a condition of this name (EC-16)."""

    AMIS = "AMIsReady"
    CAPACITY_RESERVATIONS = "CapacityReservationsReady"
    INSTANCE_PROFILE = "InstanceProfileReady"
    PLACEMENT_GROUP = "PlacementGroupReady"
    SECURITY_GROUPS = "SecurityGroupsReady"
    SUBNETS = "SubnetsReady"
    VALIDATION = "ValidationSucceeded"


class Problem(msgspec.Struct, frozen=True):
    """Why a part of a class is not ready: the condition that is False, its reason, and a sentence."""

    condition: Part
    reason: str
    message: str


class Findings(msgspec.Struct, frozen=True):
    """What a class stands for in AWS now. A part with a problem may be empty."""

    subnets: tuple[Subnet, ...] = ()
    security_groups: tuple[SecurityGroup, ...] = ()
    images: tuple[BootImage, ...] = ()
    """Newest first, deprecated ones last."""
    profile: str = ""
    launch_template: LaunchTemplate | None = None
    """v1alpha5: the user's own (T-07)."""
    problems: tuple[Problem, ...] = ()
    reservations: tuple[CapacityReservation, ...] = ()
    group: PlacementGroup | None = None


async def part(
    search: Awaitable[Found], condition: Part, reason: str, problems: list[Problem]
) -> Found | None:
    """What was found, or None with the problem added."""
    try:
        return await search
    except InvalidObject as error:
        named = str(error.context.get("reason") or reason)
        problems.append(Problem(condition, named, str(error)))
    except Unauthorized as error:
        problems.append(Problem(condition, "Unauthorized", error.message))
    return None


def snapshots_of(node_class: NodeClass) -> frozenset[str]:
    """Ids of the snapshots that its volumes start from."""
    return frozenset(_snapshot(mapping) for mapping in volumes(node_class)) - {""}


def volume_problems(
    node_class: NodeClass, images: Iterable[Image], snapshot_gib: Mapping[str, int] | None
) -> list[Problem]:
    """Each volume that is too small, or has no snapshot. ``snapshot_gib``: id -> size; None when we may not look."""
    images = list(images)
    found: list[Problem] = []
    for index, mapping in enumerate(volumes(node_class)):
        field = (
            f"{VOLUMES_FIELD}[{index}].ebs" if node_class.block_device_mappings else VOLUMES_FIELD
        )
        if _snapshot(mapping):
            found += _by_snapshot(mapping, snapshot_gib, field)
        else:
            found += _by_images(mapping, images, field)
    return found


def _by_snapshot(
    mapping: Mapping[str, Any], snapshot_gib: Mapping[str, int] | None, field: str
) -> list[Problem]:
    snapshot, size = _snapshot(mapping), mapping["Ebs"].get("VolumeSize")
    if snapshot_gib is None:
        return []
    if snapshot not in snapshot_gib:
        text = f"{field}.snapshotID: EC2 has no snapshot {snapshot} that we may use; name another"
        return [Problem(Part.VALIDATION, NO_SNAPSHOT, text)]
    least = snapshot_gib[snapshot]
    if size is None or size >= least:
        return []
    text = f"{field}.volumeSize: {size}Gi is too small for snapshot {snapshot}; give it {least}Gi"
    return [Problem(Part.VALIDATION, TOO_SMALL, text)]


def _by_images(mapping: Mapping[str, Any], images: list[Image], field: str) -> list[Problem]:
    device, size = mapping["DeviceName"], mapping["Ebs"].get("VolumeSize")
    needing = [(image.volumes.get(device, 0), image.id) for image in images]
    least, image_id = max(needing, default=(0, ""))
    if size is None or size >= least:
        return []
    text = (
        f"{field}: the volume {device} has {size}Gi, which is too small for image {image_id}; "
        f"give it {least}Gi"
    )
    return [Problem(Part.VALIDATION, TOO_SMALL, text)]


def _snapshot(mapping: Mapping[str, Any]) -> str:
    return str(mapping["Ebs"].get("SnapshotId") or "")
