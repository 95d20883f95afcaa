"""From what was found for a node class, and what is wrong with it, to its status: pure (T-09, T-12, EC-12, EC-15..17).

v1alpha1 has one condition, Ready. v1 has one per part as well, and Ready is all of them. Volumes must be as large as
what is to be on them, or EC2 would refuse every launch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from services.launcher.launch_template.content import volumes
from services.launcher.resolved_class import BootImage
from shared.api.class_statuses import refusal_reason
from shared.api.conditions import READY, condition_objects, known_conditions, with_condition
from shared.api.faults import Fault, texts_of
from shared.api.schema.selector_terms import MOST_TAGS
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, NAME_TAG, TOKEN_TAG, cluster_tag
from shared.cloud.ec2.records import (
    CapacityReservation,
    Image,
    LaunchTemplate,
    PlacementGroup,
    SecurityGroup,
    Subnet,
)
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Condition
from shared.domain.pools.generations import Generation
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject, Unauthorized

Found = TypeVar("Found")
TOO_SMALL, NO_SNAPSHOT = "VolumeTooSmall", "SnapshotNotFound"
_TAGS_OF_BOTH = {NAME_TAG, cluster_tag(""), TOKEN_TAG, keys.MACHINE_TAG}
_TAGS_V1ALPHA5 = frozenset({*_TAGS_OF_BOTH, keys.PROVISIONER_NAME, keys.MANAGED_BY})
_TAGS_V1 = frozenset(
    {*_TAGS_OF_BOTH, keys.NODE_POOL, keys.NODE_CLASS, keys.NODE_CLAIM_TAG, CLUSTER_NAME_TAG}
)
"""What an instance gets by its launch and later; all but Name are reserved, whatever the cluster is called."""
VOLUMES_FIELD = "spec.blockDeviceMappings"
LONGEST_MESSAGE = 1000
NOT_READY = "NodeClassNotReady"
WAITING = "DependenciesNotReady"
Json = Mapping[str, Any]


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
    """Each volume that is too small, or has no snapshot. ``snapshot_gib``: id -> size; None: we may not read them."""
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


def tag_problems(node_class: NodeClass, given: Mapping[str, str]) -> list[Problem]:
    """Tags that would not fit on an instance. ``given``: those that the operator gives to all resources (OPS-04)."""
    set_by_us = _TAGS_V1 if node_class.api.own_tags else _TAGS_V1ALPHA5
    chosen = {*given, *node_class.tags}
    room = MOST_TAGS - len(set_by_us - chosen)
    if len(chosen) <= room:
        return []
    text = (
        f"spec.tags: {len(chosen)} tags with those of AWS_TAGS are too many: an instance has at most {MOST_TAGS}, and "
        f"Dovetail sets {MOST_TAGS - room} more; leave {len(chosen) - room} out"
    )
    return [Problem(Part.VALIDATION, refusal_reason([text]), text)]


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


def message_of(problems: Iterable[Problem]) -> str:
    """All problems in one text for people."""
    return "; ".join(problem.message for problem in problems)[:LONGEST_MESSAGE]


def found_status(api: Generation, findings: Findings, raw: Json, now: float) -> dict[str, Any]:
    """The status to write for a class that could be looked up."""
    fresh = {READY: _ready(findings.problems, now)}
    if not api.detailed_status:
        return {**_v1alpha1_fields(findings), "conditions": _conditions(raw, fresh)}
    fresh |= {part.value: _part(part, findings.problems, now) for part in Part}
    return {**_v1_fields(findings), "conditions": _conditions(raw, fresh)}


def invalid_status(faults: Iterable[Fault], raw: Json, now: float) -> dict[str, Any]:
    """The status of a v1 class that cannot be read: its faults, and parts that nobody could look up.

    The watcher writes the first two as well, in the same words, so neither undoes the other's.
    """
    texts = texts_of(faults)
    message = "; ".join(texts)[:LONGEST_MESSAGE]
    waiting = Condition("Unknown", WAITING, "looked up when the spec is valid", now)
    refused = Condition("False", refusal_reason(texts), message, now)
    fresh = {part.value: waiting for part in Part}
    fresh |= {Part.VALIDATION.value: refused, READY: refused}
    return {"conditions": _conditions(raw, fresh)}


def _ready(problems: Sequence[Problem], now: float) -> Condition:
    if problems:
        return Condition("False", NOT_READY, message_of(problems), now)
    return Condition("True", READY, "", now)


def _part(part: Part, problems: Sequence[Problem], now: float) -> Condition:
    ours = [problem for problem in problems if problem.condition == part]
    if ours:
        return Condition("False", ours[0].reason, message_of(ours), now)
    if problems and part == Part.VALIDATION:
        return Condition("Unknown", WAITING, "tried out when the other parts are ready", now)
    return Condition("True", part.value, "", now)


def _conditions(raw: Json, fresh: Mapping[str, Condition]) -> list[dict[str, Any]]:
    """The object's conditions with these brought up to date for its generation; others on it stay."""
    conditions = known_conditions(raw.get("status"))
    generation = int(raw["metadata"].get("generation") or 0)
    for name, condition in fresh.items():
        stamped = msgspec.structs.replace(condition, generation=generation)
        conditions = with_condition(conditions, name, stamped)
    return condition_objects(conditions)


def _v1alpha1_fields(findings: Findings) -> dict[str, Any]:
    return {
        "subnets": [{"id": subnet.id, "zone": subnet.zone} for subnet in findings.subnets],
        "securityGroups": [{"id": group.id} for group in findings.security_groups],
        "amis": [_image(item) for item in findings.images],
    }


def _v1_fields(findings: Findings) -> dict[str, Any]:
    """A profile that is not there is None: a merge patch takes the field away."""
    return {
        "subnets": [
            {"id": subnet.id, "zone": subnet.zone, "zoneID": subnet.zone_id}
            for subnet in findings.subnets
        ],
        "securityGroups": [{"id": g.id, "name": g.name} for g in findings.security_groups],
        "amis": [
            {**_image(item), **({"deprecated": True} if item.image.deprecated else {})}
            for item in findings.images
        ],
        "instanceProfile": findings.profile or None,
        "placementGroup": _group(findings.group),
        "capacityReservations": [_reservation(one) for one in findings.reservations] or None,
    }


def _group(one: PlacementGroup | None) -> dict[str, Any] | None:
    if one is None:
        return None
    strategy = {"strategy": one.strategy} if one.strategy else {}
    return {"id": one.id, "name": one.name, "partitions": one.partitions, **strategy}


def _reservation(one: CapacityReservation) -> dict[str, Any]:
    return {
        "id": one.id,
        "availabilityZone": one.zone,
        "instanceType": one.instance_type,
        "instanceMatchCriteria": one.criteria,
        "ownerID": one.owner,
        "reservationType": one.kind,
        "state": "active",
        **({} if one.ends_at is None else {"endTime": rfc3339(one.ends_at)}),
    }


def _image(item: BootImage) -> dict[str, Any]:
    requirements = [
        {
            "key": one.key,
            "operator": one.operator,
            **({"values": [*one.values]} if one.values else {}),
        }
        for one in item.requirements.expressions()
    ]
    return {"id": item.image.id, "name": item.image.name, "requirements": requirements}
