"""What the launcher wrote to the status of a node class, of either generation, put into its record (T-12, EC-15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from shared.api.conditions import READY, known_conditions
from shared.domain.machines import Condition
from shared.domain.nodepools import NodeClass, SubnetRef


def with_status(node_class: NodeClass, status: object) -> NodeClass:
    """Status is ours: what cannot be read there counts as absent."""
    if not isinstance(status, Mapping):
        return node_class
    ready = known_conditions(status).get(READY, Condition("Unknown"))
    found = status.get("subnets")
    return msgspec.structs.replace(
        node_class,
        subnets=tuple(_subnets(found if isinstance(found, list) else [])),
        ready=ready.status == "True",
        fault="" if ready.status == "True" else ready.message,
    )


def _subnets(found: list[object]) -> Iterable[SubnetRef]:
    for one in found:
        if not isinstance(one, Mapping):
            continue
        identity, zone, zone_id = (one.get(name) for name in ("id", "zone", "zoneID"))
        if isinstance(identity, str) and isinstance(zone, str):
            yield SubnetRef(identity, zone, zone_id if isinstance(zone_id, str) else "")
