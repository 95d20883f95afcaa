"""Records of EC2 objects, and their decoding from EC2's answers.

Times are seconds since the epoch (UTC). Tags are plain dicts. Decoders accept absent fields: EC2
omits fields that do not apply (a terminated instance has no subnet).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from shared.domain.labels import ON_DEMAND, SPOT
from shared.errors import Unavailable

Json = dict[str, Any]
ALL_LISTED_SECONDS = 200.0
"""EC2 lists a new instance three minutes after its start at the latest (F20). An absence that lasted for less says
nothing: a machine may be deleted, or a call be repeated, before any list has its instance."""


class Subnet(msgspec.Struct, frozen=True):
    id: str
    zone: str
    zone_id: str
    available_ips: int


class SecurityGroup(msgspec.Struct, frozen=True):
    id: str
    name: str


class PlacementGroup(msgspec.Struct, frozen=True):
    """``partitions``: the number of partitions of a partition group; 0 for the other strategies."""

    id: str
    name: str
    state: str
    partitions: int = 0
    strategy: str = ""
    """cluster, partition or spread."""


class CapacityReservation(msgspec.Struct, frozen=True):
    """An active capacity reservation; ``left`` is its number of free instances."""

    id: str
    owner: str
    instance_type: str
    zone: str
    criteria: str
    """``open`` or ``targeted``."""
    kind: str
    """``default`` or ``capacity-block``."""
    left: int
    ends_at: float | None = None
    tags: dict[str, str] = msgspec.field(default_factory=dict)
    interruptible: bool = False
    """EC2 may interrupt its instances after a notice."""


class Image(msgspec.Struct, frozen=True):
    """``architecture`` is EC2's name (x86_64, arm64); ``created_at`` is RFC 3339, so it sorts as text."""

    id: str
    name: str
    architecture: str
    created_at: str
    owner: str
    deprecated: bool
    volumes: dict[str, int] = {}
    """Device name -> GiB of its snapshot, the minimum size of the volume."""


class LaunchTemplate(msgspec.Struct, frozen=True):
    """``version`` is the number of the latest version, which a launch pins (F1)."""

    id: str
    name: str
    version: int
    created_at: float = 0.0
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class FleetInstance(msgspec.Struct, frozen=True):
    id: str
    instance_type: str
    zone: str | None
    subnet_id: str | None
    capacity_type: str
    launch_template_id: str


class FleetError(msgspec.Struct, frozen=True):
    """One failed override. ``zone`` and ``subnet_id`` are None when the override does not name them."""

    code: str
    message: str
    instance_type: str
    zone: str | None
    subnet_id: str | None
    capacity_type: str


class FleetResult(msgspec.Struct, frozen=True):
    """The answer of CreateFleet: an instant fleet may return instances and errors together (LCH-61)."""

    instances: tuple[FleetInstance, ...]
    errors: tuple[FleetError, ...]


class Instance(msgspec.Struct, frozen=True):
    id: str
    instance_type: str
    zone: str
    capacity_type: str
    image_id: str
    state: str
    launched_at: float
    private_dns_name: str
    tags: dict[str, str]
    subnet_id: str
    security_group_ids: tuple[str, ...]
    state_reason: str = ""
    """EC2's reason for the termination: ``Client.InternalError: ...`` for a KMS key that it may not use (LCH-67)."""
    stopped_at: float = 0.0
    """When it was ordered to stop or to end, in seconds since the epoch, as far as EC2 says so; 0: it does not."""
    capacity_reservation_id: str = ""
    placement_group: str = ""
    """Name of its placement group."""
    placement_group_id: str = ""
    profile: str = ""
    """Name of its instance profile."""


def tags_from(items: list[Json] | None) -> dict[str, str]:
    """EC2's list of ``Key`` and ``Value`` objects as a dict."""
    return {item["Key"]: item.get("Value", "") for item in items or ()}


def tags_to(tags: dict[str, str]) -> list[Json]:
    """The inverse, sorted, so that equal tags give an equal request."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def tag_specification(resource: str, tags: dict[str, str]) -> Json:
    """A TagSpecifications entry for ``instance``, ``volume``, ``fleet``, ``launch-template``."""
    return {"ResourceType": resource, "Tags": tags_to(tags)}


def subnet_from(item: Json) -> Subnet:
    return Subnet(
        id=item["SubnetId"],
        zone=item["AvailabilityZone"],
        zone_id=item.get("AvailabilityZoneId", ""),
        available_ips=int(item.get("AvailableIpAddressCount", 0)),
    )


def image_from(item: Json, *, now_rfc3339: str) -> Image:
    """An image, deprecated from ``DeprecationTime`` on (LCH-08). RFC 3339 times in UTC compare as text."""
    deprecation = item.get("DeprecationTime") or ""
    return Image(
        id=item["ImageId"],
        name=item.get("Name", ""),
        architecture=item.get("Architecture", ""),
        created_at=item.get("CreationDate", ""),
        owner=item.get("OwnerId", ""),
        deprecated=bool(deprecation) and deprecation <= now_rfc3339,
        volumes=_snapshot_sizes(item.get("BlockDeviceMappings") or ()),
    )


def _snapshot_sizes(mappings: Iterable[Json]) -> dict[str, int]:
    sizes = {m.get("DeviceName", ""): (m.get("Ebs") or {}).get("VolumeSize") for m in mappings}
    return {device: int(size) for device, size in sizes.items() if size}


def placement_group_from(item: Json) -> PlacementGroup:
    return PlacementGroup(
        id=item.get("GroupId", ""),
        name=item.get("GroupName", ""),
        state=item.get("State", ""),
        partitions=int(item.get("PartitionCount") or 0),
        strategy=item.get("Strategy", ""),
    )


def capacity_reservation_from(item: Json) -> CapacityReservation:
    ends = item.get("EndDate")
    return CapacityReservation(
        id=item["CapacityReservationId"],
        owner=item.get("OwnerId", ""),
        instance_type=item.get("InstanceType", ""),
        zone=item.get("AvailabilityZone", ""),
        criteria=item.get("InstanceMatchCriteria", ""),
        kind=item.get("ReservationType") or "default",
        left=int(item.get("AvailableInstanceCount") or 0),
        ends_at=ends.timestamp() if ends else None,
        tags=tags_from(item.get("Tags")),
        interruptible=bool(item.get("Interruptible")),
    )


def launch_template_from(item: Json) -> LaunchTemplate:
    created = item.get("CreateTime")
    return LaunchTemplate(
        id=item["LaunchTemplateId"],
        name=item["LaunchTemplateName"],
        version=int(item["LatestVersionNumber"]),
        created_at=created.timestamp() if created else 0.0,
        tags=tags_from(item.get("Tags")),
    )


def instance_from(item: Json) -> Instance:
    launched, placement = item.get("LaunchTime"), item.get("Placement") or {}
    return Instance(
        id=item["InstanceId"],
        instance_type=item.get("InstanceType", ""),
        zone=placement.get("AvailabilityZone", ""),
        capacity_type=SPOT if item.get("InstanceLifecycle") == "spot" else ON_DEMAND,
        image_id=item.get("ImageId", ""),
        state=(item.get("State") or {}).get("Name", ""),
        launched_at=launched.timestamp() if launched else 0.0,
        private_dns_name=item.get("PrivateDnsName", ""),
        tags=tags_from(item.get("Tags")),
        subnet_id=item.get("SubnetId", ""),
        security_group_ids=tuple(group["GroupId"] for group in item.get("SecurityGroups") or ()),
        state_reason=(item.get("StateReason") or {}).get("Message", ""),
        stopped_at=_time_in(item.get("StateTransitionReason") or ""),
        capacity_reservation_id=item.get("CapacityReservationId", ""),
        placement_group=placement.get("GroupName", ""),
        placement_group_id=placement.get("GroupId", ""),
        profile=(item.get("IamInstanceProfile") or {}).get("Arn", "").rpartition("/")[2],
    )


def _time_in(transition: str) -> float:
    """Of ``User initiated (2026-11-26 08:10:00 GMT)``; 0 without a time."""
    found = _TRANSITION.search(transition)
    if found is None:
        return 0.0
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


_TRANSITION = re.compile(r"\((\d{4}-[01]\d-[0-3]\d [0-2]\d:[0-5]\d:[0-5]\d) (?:GMT|UTC)\)")


def fleet_result_from(answer: Json) -> FleetResult:
    """The result with instances sorted by id: this order assigns them to machines, also after a replay (F1, F19)."""
    instances = [one for group in answer.get("Instances") or () for one in _fleet_instances(group)]
    return FleetResult(
        instances=tuple(sorted(instances, key=lambda instance: instance.id)),
        errors=tuple(_fleet_error(item) for item in answer.get("Errors") or ()),
    )


def _override(item: Json) -> Json:
    override: Json = (item.get("LaunchTemplateAndOverrides") or {}).get("Overrides") or {}
    return override


def _capacity_type(item: Json) -> str:
    return SPOT if item.get("Lifecycle") == "spot" else ON_DEMAND


def _template_id(group: Json) -> str:
    used: Json = (group.get("LaunchTemplateAndOverrides") or {}).get(
        "LaunchTemplateSpecification"
    ) or {}
    return str(used.get("LaunchTemplateId") or "")


def _fleet_instances(group: Json) -> list[FleetInstance]:
    override = _override(group)
    instance_type = group.get("InstanceType") or override.get("InstanceType")
    if not instance_type:
        raise Unavailable("CreateFleet answered instances without a type", code="NoInstanceType")
    return [
        FleetInstance(
            id=instance_id,
            instance_type=instance_type,
            zone=override.get("AvailabilityZone"),
            subnet_id=override.get("SubnetId"),
            capacity_type=_capacity_type(group),
            launch_template_id=_template_id(group),
        )
        for instance_id in group.get("InstanceIds") or ()
    ]


def _fleet_error(item: Json) -> FleetError:
    override = _override(item)
    return FleetError(
        code=item.get("ErrorCode", ""),
        message=item.get("ErrorMessage", ""),
        instance_type=override.get("InstanceType", ""),
        zone=override.get("AvailabilityZone"),
        subnet_id=override.get("SubnetId"),
        capacity_type=_capacity_type(item),
    )
