"""The status of a node class of either generation, as the launcher writes it -> fields of its record (T-12, EC-15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shared.api.conditions import READY, known_conditions
from shared.domain.machines.machine import Condition
from shared.domain.pools.nodepools import NodeClass, SubnetRef

MOST_PARTITIONS = 7
"""EC2's limit of partitions per zone in a placement group."""
REFUSED = "ValidationFailed"
_REASONS = {"spec.tags": "TagValidationFailed", "spec.kubelet": "InvalidKubeletConfiguration"}


def refusal_reason(faults: Iterable[str]) -> str:
    """EC-17: the condition reason of a v1 class with these faults. A specific reason needs all faults in one field."""
    found = {_reason(fault) for fault in faults}
    return found.pop() if len(found) == 1 else REFUSED


def _reason(fault: str) -> str:
    part = fault.partition(": ")[0]
    named = (reason for field, reason in _REASONS.items() if _is_within(part, field))
    return next(named, REFUSED)


def _is_within(path: str, field: str) -> bool:
    return path == field or path.startswith((f"{field}.", f"{field}["))


def with_status(node_class: NodeClass, status: object) -> NodeClass:
    """``node_class`` with the fields that come from its status. Only the launcher writes the status, so invalid parts
    count as absent. A Ready condition of an older generation does not count: the subnets and images of the current
    spec are not resolved yet."""
    if not isinstance(status, Mapping):
        return node_class
    ready = known_conditions(status).get(READY, Condition("Unknown"))
    if ready.generation not in (0, node_class.generation):
        ready = Condition("Unknown", message="its latest change is not processed yet")
    found, images = status.get("subnets"), status.get("amis")
    group = status.get("placementGroup")
    return msgspec.structs.replace(
        node_class,
        subnets=tuple(_subnets(found if isinstance(found, list) else [])),
        image_ids=tuple(sorted(set(_ids(images if isinstance(images, list) else [])))),
        placement_group_id=_group_id(group),
        partitions=_partitions(group),
        spreads=isinstance(group, Mapping) and group.get("strategy") == "spread",
        ready=ready.status == "True",
        fault="" if ready.status == "True" else ready.message,
    )


def _group_id(group: object) -> str:
    found = group.get("id") if isinstance(group, Mapping) else None
    return found if isinstance(found, str) else ""


def _partitions(group: object) -> int:
    found = group.get("partitions") if isinstance(group, Mapping) else None
    if not isinstance(found, int) or isinstance(found, bool):
        return 0
    return found if 0 <= found <= MOST_PARTITIONS else 0


def _ids(found: list[object]) -> Iterable[str]:
    """The ids of the objects that have one."""
    ids = (one.get("id") for one in found if isinstance(one, Mapping))
    return (identity for identity in ids if isinstance(identity, str))


def _subnets(found: list[object]) -> Iterable[SubnetRef]:
    for one in found:
        if not isinstance(one, Mapping):
            continue
        identity, zone, zone_id = (one.get(name) for name in ("id", "zone", "zoneID"))
        if isinstance(identity, str) and isinstance(zone, str):
            yield SubnetRef(identity, zone, zone_id if isinstance(zone_id, str) else "")
