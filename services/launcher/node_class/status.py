"""From what was found for a node class to its status: pure (T-12, EC-15..17).

v1alpha1 has one condition, Ready. v1 has one per part as well, and Ready is all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.launcher.node_class.problems import Findings, Part, Problem
from services.launcher.resolved_class import BootImage
from shared.api.class_statuses import refusal_reason
from shared.api.conditions import READY, condition_objects, known_conditions, with_condition
from shared.api.faults import Fault, texts_of
from shared.cloud.ec2.records import CapacityReservation, PlacementGroup
from shared.concurrency.clock import rfc3339
from shared.domain.machines.machine import Condition
from shared.domain.pools.generations import Generation

LONGEST_MESSAGE = 1000
NOT_READY = "NodeClassNotReady"
WAITING = "DependenciesNotReady"
Json = Mapping[str, Any]


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
    return {"id": one.id, "name": one.name, "partitions": one.partitions} if one else None


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
