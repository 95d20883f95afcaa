"""Which nodes have been unhealthy for too long, and whether too many are: pure (TRM-20, TRM-21, TRM-23).

A network that fails makes every node look unhealthy at once. To replace them all would make the failure worse, so
nothing is repaired where more than a fifth of a pool is unhealthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from shared.api.shapes import entries, mapping
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.errors import InvalidObject

Json = Mapping[str, Any]
MINUTE = 60.0
TOLERATED_SECONDS = {
    ("Ready", "False"): 30 * MINUTE,
    ("Ready", "Unknown"): 30 * MINUTE,
    ("AcceleratedHardwareReady", "False"): 10 * MINUTE,
    ("StorageReady", "False"): 30 * MINUTE,
    ("NetworkingReady", "False"): 30 * MINUTE,
    ("KernelReady", "False"): 30 * MINUTE,
    ("ContainerRuntimeReady", "False"): 30 * MINUTE,
}
"""Condition and status -> how long that is tolerated, in seconds (TRM-20)."""
MOST_UNHEALTHY_PERCENT = 20
"""Of a pool's nodes, rounded up to whole ones (TRM-21)."""


class Unhealthy(msgspec.Struct, frozen=True):
    """An unhealthy condition. ``due``: when it is no longer tolerated, in seconds since the epoch."""

    condition: str
    status: str
    due: float


class NodeHealth(msgspec.Struct, frozen=True):
    """A node and its unhealthy condition, if it has one."""

    node: Node
    unhealthy: Unhealthy | None


def unhealthy_condition(raw: Json) -> Unhealthy | None:
    """The unhealthy condition of a node object that is due first. One that cannot be read does not count."""
    try:
        conditions = entries(mapping(raw.get("status"), "status").get("conditions"), "conditions")
    except InvalidObject:
        return None
    found = [one for condition in conditions if (one := _unhealthy(condition))]
    return min(found, key=lambda one: one.due, default=None)


def _unhealthy(condition: Json) -> Unhealthy | None:
    kind, status = str(condition.get("type")), str(condition.get("status"))
    tolerated = TOLERATED_SECONDS.get((kind, status))
    if tolerated is None:
        return None
    try:
        since = parse_rfc3339(str(condition.get("lastTransitionTime")))
    except ValueError:
        return None
    return Unhealthy(kind, status, since + tolerated)


def too_many_unhealthy(nodes: Sequence[NodeHealth]) -> bool:
    """Are so many of these unhealthy that none may be repaired? Those that are still tolerated count too (TRM-21)."""
    unhealthy = sum(one.unhealthy is not None for one in nodes)
    return unhealthy > -(-len(nodes) * MOST_UNHEALTHY_PERCENT // 100)


def due(nodes: Iterable[NodeHealth], *, now: float) -> list[NodeHealth]:
    """Nodes whose unhealthy condition is no longer tolerated, and that are not being deleted."""
    return [
        one
        for one in nodes
        if one.unhealthy is not None and one.unhealthy.due <= now and not one.node.terminating
    ]


def is_kept(node: Node, machine: Machine) -> bool:
    """Does somebody want this node as it is (TRM-23)? It still counts among the unhealthy ones."""
    return "true" in (one.annotations.get(keys.DO_NOT_REPAIR) for one in (node, machine))


def by_pool(nodes: Iterable[NodeHealth]) -> dict[str, list[NodeHealth]]:
    """Nodes by the key of their pool. Under the empty key, for Machines without a pool, the whole cluster (TRM-21)."""
    everyone = list(nodes)
    found: dict[str, list[NodeHealth]] = {"": everyone}
    for one in everyone:
        if one.node.pool_key:
            found.setdefault(one.node.pool_key, []).append(one)
    return found
