"""What a recorded period has cost, shared as in module ``allocation``: each change begins new charges of its machine.

Amounts are micro-USD, kept as micro-USD an hour times seconds; times are seconds since the epoch. An instance costs
from its launch until it is ordered to end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from shared.disruption.candidates import Prices
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.workloads.pods import Pod
from shared.simulation.ledgers.allocation import Charge, charges_of, price_of
from shared.simulation.ledgers.instances import HOUR, end_of, launch_of

EVERY = ("hour", "day", "month")
MOST_PERIODS = 10_000


def edges_of(begin: float, end: float, every: str) -> list[float]:
    """``begin``, the hours, days or months of UTC that begin between, and ``end``; ``every`` empty: only those two.
    At most ``MOST_PERIODS`` periods."""
    found = [begin]
    at = datetime.fromtimestamp(begin, UTC).replace(minute=0, second=0, microsecond=0)
    at = at if every == "hour" else at.replace(hour=0)
    at = at.replace(day=1) if every == "month" else at
    while every and len(found) < MOST_PERIODS:
        at = _next(at, every)
        if at.timestamp() >= end:
            break
        found.append(at.timestamp())
    return [*found, end]


def _next(at: datetime, every: str) -> datetime:
    if every == "month":
        return (at + timedelta(days=32)).replace(day=1)
    return at + (timedelta(hours=1) if every == "hour" else timedelta(days=1))


Name = TypeVar("Name", bound=Hashable)


@dataclass
class _Running:
    """A machine whose instance costs money. ``since``: from when its charges are not counted yet."""

    machine: Machine
    since: float
    charges: list[Charge] | None = None
    """None: to be made anew."""
    begun: float = 0.0
    """From when on it is counted."""


@dataclass
class Spending(Generic[Name]):
    """Follows a period. Feed it every change of machines, nodes and pods, and prices, in order.

    ``edges``: of the periods, as of ``edges_of``; ``name``: what a charge counts for.
    """

    edges: Sequence[float]
    name: Callable[[Charge], Name]
    unpriced: set[str] = field(default_factory=set)
    """Keys of machines whose price was not known: they are not counted."""
    _spent: defaultdict[tuple[int, Name], float] = field(default_factory=lambda: defaultdict(float))
    _prices: Prices = field(default_factory=dict)
    _machines: dict[str, _Running] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _nodes: dict[str, Node] = field(default_factory=dict)
    _on: dict[str, str] = field(default_factory=dict)
    """Node -> key of its machine."""
    _pods: dict[str, Pod] = field(default_factory=dict)
    """By key: those that are on a node."""
    _by_node: defaultdict[str, dict[str, Pod]] = field(default_factory=lambda: defaultdict(dict))

    def priced(self, at: float, prices: Prices) -> None:
        """Offerings have these prices from now on."""
        for running in self._machines.values():
            self._renew(running, at)
        self._prices = prices

    def machine(self, at: float, key: str, machine: Machine | None) -> None:
        """A machine is like this now; None: it is gone."""
        running = self._machines.get(key)
        ended = end_of(at, machine)
        if running is not None:
            self._renew(running, at if ended is None else min(at, ended))
            if ended is not None and ended < running.since:
                self._give_back(running, ended)
        if ended is not None:
            self._machines.pop(key, None)
            self._ended.add(key)
        if machine is None:
            self._ended.discard(key)
            return
        if not machine.provider_id or key in self._ended:
            return
        if running is None:
            since = max(self.edges[0], launch_of(at, machine))
            running = self._machines[key] = _Running(machine, since, begun=since)
        running.machine = machine
        if machine.node_name:
            self._on[machine.node_name] = key

    def node(self, at: float, name: str, node: Node | None) -> None:
        """A node is like this now; None: it is gone."""
        before = self._nodes.get(name)
        if (before and before.allocatable) == (node and node.allocatable):
            return
        self._renew_node(name, at)
        if node is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = node

    def pod(self, at: float, key: str, pod: Pod | None) -> None:
        """A pod is like this now; None: it is gone."""
        before = self._pods.get(key)
        after = pod if pod is not None and pod.node_name and not pod.is_terminal else None
        if _counts(before) == _counts(after):
            return
        for one in filter(None, (before, after)):
            self._renew_node(one.node_name, at)
        if before is not None:
            del self._pods[key]
            self._by_node[before.node_name].pop(key, None)
        if after is not None:
            self._pods[key] = after
            self._by_node[after.node_name][key] = after

    def finish(self, at: float) -> dict[tuple[int, Name], float]:
        """All micro-USD up to ``at``, by number of the period, from 0, and name."""
        for running in self._machines.values():
            self._renew(running, at)
        return {part: amount / HOUR for part, amount in self._spent.items()}

    def _renew_node(self, name: str, at: float) -> None:
        running = self._machines.get(self._on.get(name, ""))
        if running is not None:
            self._renew(running, at)

    def _renew(self, running: _Running, at: float) -> None:
        """Count its charges up to now; what comes next is charged anew."""
        if at > running.since:
            if running.charges is None:
                running.charges = self._charges(running.machine)
            self._count(running.charges, running.since, at)
            running.since = at
        running.charges = None

    def _give_back(self, running: _Running, ended: float) -> None:
        """What was counted since its instance had ended, which was seen later."""
        back = [
            one._replace(micro_usd_per_hour=-one.micro_usd_per_hour)
            for one in self._charges(running.machine)
        ]
        self._count(back, max(ended, running.begun), running.since)

    def _charges(self, machine: Machine) -> list[Charge]:
        if price_of(machine, self._prices) is None:
            self.unpriced.add(machine.key)
            return []
        node = self._nodes.get(machine.node_name)
        pods = self._by_node.get(machine.node_name, {}) if machine.node_name else {}
        return charges_of([machine], [node] if node else [], pods.values(), self._prices)

    def _count(self, found: Iterable[Charge], begin: float, end: float) -> None:
        amounts: defaultdict[Name, int] = defaultdict(int)
        for charge in found:
            amounts[self.name(charge)] += charge.micro_usd_per_hour
        period = max(0, bisect_right(self.edges, begin) - 1)
        while begin < end and period < len(self.edges) - 1:
            last = min(end, self.edges[period + 1])
            for name, amount in amounts.items():
                self._spent[period, name] += amount * (last - begin)
            begin, period = last, period + 1


def _counts(pod: Pod | None) -> object:
    """What of a pod its charge depends on."""
    return pod and (pod.uid, pod.node_name, pod.requests, pod.labels, pod.owner)
