"""``explain`` about a pool: its machines, cost, limits, budgets, and what it may buy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.scheduler.state.cluster import ClusterState
from services.scheduler.state.obstacles import Obstacles
from services.scheduler.static_capacity.shortfall import kept, shortfall
from services.scheduler.status.one_at_a_time import cannot_judge
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.runtime.services import Answer, json_answer
from shared.settings import SchedulerSettings
from shared.simulation.pool_report import pool_report
from shared.solver.solve import SolverSettings


@dataclass
class PoolExplainer:
    """Answers about one pool."""

    cluster: ClusterState
    options: Callable[[], SolverSettings]
    settings: SchedulerSettings
    obstacles: Obstacles

    async def answer(self, name: str) -> Answer:
        """``name``: of a pool, or NodePool/NAME or Provisioner/NAME where both have one; 404 for an unknown one."""
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return cannot_judge(self.cluster)
        found = [pool for pool in snapshot.pools if name in (pool.key, pool.name)]
        if not found:
            known = ", ".join(pool.key for pool in snapshot.pools[:20]) or "none"
            return json_answer(
                404, {"error": f"no pool is named {name[:253]!r}; there are {known}"}
            )
        if len(found) > 1:
            names = ", ".join(pool.key for pool in found)
            return json_answer(400, {"error": f"several pools have this name, name one: {names}"})
        document = await asyncio.to_thread(self._document, found[0], snapshot, self.options())
        return json_answer(200, document)

    def _document(
        self, pool: NodePool, snapshot: Snapshot, options: SolverSettings
    ) -> dict[str, Any]:
        now, gates = self.cluster.clock.now(), self.settings.feature_gates
        off = self.settings.disruption == "off"
        report = pool_report(pool, snapshot, options.packing_policy, gates, now=now, off=off)
        short = shortfall(pool, snapshot, options, gates, now=now)
        more = filter(None, (short, self.obstacles.of_pool(pool.key)))
        problems = [*report["problems"], *more]
        return {**report, "problems": problems, "kept": kept(pool, snapshot, now=now)}
