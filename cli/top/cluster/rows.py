"""From the picture to rows: what each node's pods request, groups of nodes, the pending pods, and their order. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from cli.top.records import Node, Pod
from cli.top.state import Picture

By = Literal["pool", "zone", "type"]
"""The property by which nodes are grouped."""

FAULTS = frozenset({"interrupted", "unhealthy", "not ready"})
"""Marks of a node that may not run its pods much longer."""
QUIET = 4
"""The urgency of a node with which nothing happens."""
_COMING = frozenset({"launching", "registering", "initializing"})
_GOING = frozenset({"draining", "terminating"})
_WAITS = {"capacity": 0, "scheduling": 1, "": 1, "nominated": 2}


@dataclass(frozen=True)
class Row:
    """A node with the sums over its pods: requested ``cpu`` in millicores, ``memory`` in bytes, number of ``pods``."""

    node: Node
    cpu: int = 0
    memory: int = 0
    pods: int = 0


@dataclass(frozen=True)
class Group:
    """Nodes that have the same pool, zone or type. The most urgent come first."""

    name: str
    rows: tuple[Row, ...]

    @property
    def changing(self) -> int:
        """The number of nodes with which something happens."""
        return sum(urgency(row.node) < QUIET for row in self.rows)


def rows_of(picture: Picture) -> list[Row]:
    """One row for each node, without an order."""
    sums = {name: [0, 0, 0] for name in picture.nodes}
    for pod in picture.pods.values():
        if (found := sums.get(pod.node)) is not None:
            found[0] += pod.cpu
            found[1] += pod.memory
            found[2] += 1
    return [Row(node, *sums[name]) for name, node in picture.nodes.items()]


def groups_of(rows: Iterable[Row], by: By) -> list[Group]:
    """The groups, those with changing nodes first, then by name."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(getattr(row.node, by), []).append(row)
    groups = [Group(name, tuple(sorted(rows, key=_order))) for name, rows in found.items()]
    return sorted(groups, key=lambda group: (not group.changing, group.name))


def _order(row: Row) -> tuple[int, float, str]:
    """Within one urgency the newest node is on top."""
    return (urgency(row.node), -row.node.created, row.node.id)


def urgency(node: Node) -> int:
    """0: ends by force or has a fault, 1: is going, 2: is coming, 3: has another mark, 4: nothing happens."""
    if node.deadline is not None or FAULTS & set(node.marks):
        return 0
    if node.state in _GOING:
        return 1
    if node.state in _COMING:
        return 2
    return 3 if node.marks else QUIET


def pending_of(picture: Picture) -> list[Pod]:
    """Pending pods: those for which no node has room first, then those that wait longest."""
    pending = [pod for pod in picture.pods.values() if pod.state == "pending"]
    return sorted(pending, key=lambda pod: (_WAITS.get(pod.waits, 1), pod.since, pod.name))
