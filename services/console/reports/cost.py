"""What the nodes cost: now and over the last hour, by pool, capacity type and namespace. Pure. US dollars an hour.

A node's price is shared by its pods: each gets the larger of its shares of CPU and memory. What no pod requested is
``(idle)``; daemon sets count for their namespaces. Shares that together exceed the node are scaled down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.console.picture.rows import NodeRow, PodRow

IDLE = "(idle)"
NO_POOL = "(no pool)"
NOT_KNOWN = "(not known)"
SAMPLE_SECONDS = 10.0
MOST_SAMPLES = 360
MOST_NAMES = 50
"""Names of one dimension in the series; the others are summed up."""
OTHERS = "(others)"
DIMENSIONS = ("byPool", "byCapacityType", "byNamespace")


@dataclass(frozen=True)
class Cost:
    """The cost of one moment."""

    total: float
    by_pool: Mapping[str, float]
    by_capacity_type: Mapping[str, float]
    by_namespace: Mapping[str, float]

    def document(self) -> dict[str, Any]:
        """As the page reads it."""
        parts = (self.by_pool, self.by_capacity_type, self.by_namespace)
        return {"total": self.total, **dict(zip(DIMENSIONS, map(dict, parts), strict=True))}


def cost_of(nodes: Iterable[NodeRow], pods: Iterable[PodRow]) -> Cost:
    """The cost of these rows. Nodes without a known price cost nothing here."""
    priced = {row.id: row for row in nodes if row.price}
    pools = _sums((row.pool or NO_POOL, row.price or 0) for row in priced.values())
    capacity = _sums((row.capacity_type or NOT_KNOWN, row.price or 0) for row in priced.values())
    namespaces = _by_namespace(priced, pods)
    return Cost(sum(pools.values()), pools, capacity, namespaces)


def _by_namespace(nodes: Mapping[str, NodeRow], pods: Iterable[PodRow]) -> dict[str, float]:
    on_node: dict[str, list[PodRow]] = {}
    for pod in pods:
        if pod.node in nodes:
            on_node.setdefault(pod.node, []).append(pod)
    return _sums(
        (namespace, share * (row.price or 0))
        for key, row in nodes.items()
        for namespace, share in shares(row, on_node.get(key, [])).items()
    )


def _sums(amounts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Name -> the sum of its amounts."""
    found: dict[str, float] = {}
    for name, amount in amounts:
        found[name] = found.get(name, 0.0) + amount
    return found


def shares(node: NodeRow, pods: Iterable[PodRow]) -> dict[str, float]:
    """Namespace -> its share of the node; with ``(idle)`` they sum up to 1."""
    found = _sums((pod.name.partition("/")[0], _share(node, pod)) for pod in pods)
    total = sum(found.values())
    if total > 1:
        return {name: share / total for name, share in found.items()}
    return found | {IDLE: 1 - total}


def _share(node: NodeRow, pod: PodRow) -> float:
    pairs = ((pod.cpu, node.cpu), (pod.memory, node.memory))
    return max((asked / there for asked, there in pairs if there), default=0.0)


@dataclass
class CostHistory:
    """One sample every ``SAMPLE_SECONDS``, at most ``MOST_SAMPLES``."""

    _samples: deque[tuple[float, Cost, float | None]] = field(
        default_factory=lambda: deque(maxlen=MOST_SAMPLES)
    )

    def add(self, at: float, cost: Cost, bound: float | None) -> None:
        """``bound``: the proven lower bound then, None when it is not known."""
        self._samples.append((at, _shortened(cost), bound))

    def series(self) -> dict[str, Any]:
        """Columns of equal length, as charts read them; a name that a sample lacks costs 0 there."""
        costs = [cost.document() for _, cost, _ in self._samples]
        found: dict[str, Any] = {
            "at": [at for at, _, _ in self._samples],
            "total": [cost["total"] for cost in costs],
            "bound": [bound for _, _, bound in self._samples],
        }
        for dimension in DIMENSIONS:
            names = sorted({name for cost in costs for name in cost[dimension]})
            found[dimension] = {n: [c[dimension].get(n, 0.0) for c in costs] for n in names}
        return found


def _shortened(cost: Cost) -> Cost:
    parts = (cost.by_pool, cost.by_capacity_type, cost.by_namespace)
    return Cost(cost.total, *map(_largest, parts))


def _largest(amounts: Mapping[str, float]) -> dict[str, float]:
    ordered = sorted(amounts.items(), key=lambda one: (-one[1], one[0]))
    others = sum(amount for _, amount in ordered[MOST_NAMES:])
    return dict(ordered[:MOST_NAMES]) | ({OTHERS: others} if others else {})
