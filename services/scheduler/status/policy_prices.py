"""What the cluster's pods would cost by each packing policy, computed again and again beside the work.

A process of its own plans all pods anew, as for the question about the cost, and yields to this one. While pods wait
for a plan, and while the cluster has not changed, none is started. What may go wrong: it takes more time or memory than
there is. Then the last answer stands with its time, the problem is named in ``/status``, and the next turn tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from services.scheduler.state.cluster import ClusterState
from shared.concurrency.clock import Clock
from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.snapshot import Snapshot
from shared.errors import TransientError
from shared.log import get_logger
from shared.metrics import Metrics
from shared.runtime.child import Bounds, ChildFailed, in_child
from shared.simulation.repacking import Repacking, repack
from shared.solver.solve import SolverSettings

log = get_logger(__name__)

BOUNDS = Bounds("the price by each policy", seconds=120.0, memory_bytes=1024 << 20, niceness=19)


@dataclass
class PolicyPrices:
    """``is_batching``: do pods wait for a plan?"""

    cluster: ClusterState
    options: Callable[[], SolverSettings]
    is_batching: Callable[[], bool]
    metrics: Metrics
    clock: Clock
    bounds: Bounds = BOUNDS
    _last: Repacking | None = field(default=None, init=False)
    _in_force: str = field(default="", init=False)
    _at: float = field(default=0.0, init=False)
    _problem: str = field(default="", init=False)
    _seen: tuple[int, str, SolverSettings] | None = field(default=None, init=False)
    """Generations of mirror and catalogue, and the settings, of the last answer."""

    def status(self) -> dict[str, Any] | None:
        """For ``/status``; None before the first answer. Costs in US dollars an hour; ``saves``: of each other policy,
        against the one in force."""
        if self._last is None:
            return {"problem": self._problem} if self._problem else None
        costs = self._last.costs
        now = costs[self._in_force]
        return {
            **self._last.document(),
            "inForce": self._in_force,
            "saves": {name: now - cost for name, cost in costs.items() if name != self._in_force},
            "at": self._at,
            "problem": self._problem,
        }

    async def step(self) -> None:
        """Compute once, if the cluster changed since the last answer."""
        if self.is_batching():
            return
        try:
            snapshot = await self.cluster.snapshot()
        except TransientError as error:
            self._problem = error.message
            return
        if snapshot is None:
            return
        if not snapshot.machines:
            self._forget()
            return
        options = self.options()
        seen = (snapshot.generation, snapshot.catalogue.generation, options)
        if seen == self._seen:
            return
        try:
            found = await in_child(priced, (snapshot, options), self.bounds)
        except ChildFailed as error:
            self._problem = error.message
            log.info("the price by each policy is not known", reason=error.message)
            return
        self._take(found, options)
        self._seen = seen

    def _forget(self) -> None:
        """There are no machines any more: what new ones for their pods would cost is no question."""
        self._last = self._seen = None
        self.metrics.policy_cost.clear()

    def _take(self, found: Repacking, options: SolverSettings) -> None:
        self._last, self._problem, self._at = found, "", self.clock.now()
        self._in_force = PackingPolicy(options.packing_policy).value
        for name, cost in found.costs.items():
            self.metrics.policy_cost.labels(name).set(cost)


def priced(request: tuple[Snapshot, SolverSettings]) -> Repacking:
    """The body of the computing process."""
    return repack(*request)
