"""``explain`` about a pool: its machines, cost, limits, budgets, and what it may buy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from services.scheduler.state.cluster import ClusterState
from services.scheduler.status.one_at_a_time import cannot_judge
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
        policy, now = self.options().packing_policy, self.cluster.clock.now()
        gates, off = self.settings.feature_gates, self.settings.disruption == "off"
        document = await asyncio.to_thread(
            pool_report, found[0], snapshot, policy, gates, now=now, off=off
        )
        return json_answer(200, document)
