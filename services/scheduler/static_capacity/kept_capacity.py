"""Creates machines until each pool has its minimum and its headroom, whether or not pods need them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass

from msgspec.structs import replace

from services.scheduler.actions import MachineActions
from services.scheduler.state.decisions import DecisionLog
from services.scheduler.static_capacity.adjustments import names_for
from shared.api.core.references import to_pool
from shared.concurrency.clock import Clock
from shared.disruption.keeping import keeping
from shared.domain import labels as keys
from shared.domain.pools.kept_capacity import Lacking, lacking
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES
from shared.domain.resources import CPU, MEMORY
from shared.domain.snapshot import Snapshot
from shared.errors import DovetailError
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.metrics import Metrics
from shared.solver.plan import PlannedMachine
from shared.solver.pools.kept import Filling, fill
from shared.solver.solve import SolverSettings

log = get_logger(__name__)

REASON = "kept"
"""Of the machines, in metrics: ``karpenter_nodeclaims_created_total``."""


@dataclass
class KeptCapacityFiller:
    """Keeps pools at what they keep."""

    actions: MachineActions
    clock: Clock
    decisions: DecisionLog
    recorder: Recorder
    metrics: Metrics

    async def reconcile(self, snapshot: Snapshot, busy: Set[str], settings: SolverSettings) -> None:
        """Check all pools once. One that cannot be filled does not stop the others. ``busy``: UIDs of machines that
        disruption commands take away."""
        now = self.clock.now()
        known = keeping(snapshot, busy, now=now)
        short = {
            key: lacking(pool, known.holdings[key], now=now) for key, pool in known.pools.items()
        }
        self.metrics.kept_missing.replace(_missing(known.pools, short))
        for key, pool in known.pools.items():
            if not short[key]:
                continue
            try:
                await self._fill(pool, short[key], snapshot, settings)
            except DovetailError as error:
                log.warning("a pool is below what it keeps", pool=pool.name, error=error.message)

    async def _fill(
        self, pool: NodePool, short: Lacking, snapshot: Snapshot, settings: SolverSettings
    ) -> None:
        found: Filling = await asyncio.to_thread(fill, snapshot, pool, short, settings)
        if found.why:
            await self.recorder.publish(
                to_pool(pool),
                "Warning",
                "KeptCapacityMissing",
                f"Pool is short of {short} of its minimum and headroom: {found.why}",
            )
        if not found.machines:
            return
        log.info("provisioning nodeclaims to keep capacity", NodePool=pool.name, short=str(short))
        mine = [m for m in snapshot.machines if m.pool_key == pool.key]
        names = names_for(pool, mine, len(found.machines))
        created: list[PlannedMachine] = []
        try:
            for planned, name in zip(found.machines, names, strict=True):
                one = replace(planned, name=name)
                plan = f"{keys.KEPT_PLAN}{pool.uid}"
                made = await self.actions.create_or_adopt(one, snapshot, plan=plan, reason=REASON)
                await self.actions.request_launch(made.key, f"kept/{made.uid}")
                created.append(one)
        finally:
            self.decisions.kept_filled(pool, created, str(short))


def _missing(
    pools: Mapping[str, NodePool], short: Mapping[str, Lacking]
) -> dict[tuple[str, str], float]:
    """(pool, resource) -> nodes, cores or bytes; zero for a pool that has what it keeps."""
    found: dict[tuple[str, str], float] = {}
    for key, one in short.items():
        amounts = {
            NODES: one.nodes,
            CPU: one.amounts.get(CPU, 0) / 1000,
            MEMORY: one.amounts.get(MEMORY, 0),
        }
        found |= {(pools[key].name, name): float(amount) for name, amount in amounts.items()}
    return found
