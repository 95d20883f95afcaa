"""Creates and deletes machines until each static pool has its number of replicas (GAT-01)."""

from __future__ import annotations

import asyncio
from collections.abc import Set
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.scheduler.actions import MachineActions
from services.scheduler.state.decisions import DecisionLog
from services.scheduler.static_capacity.adjustments import Adjustment, adjustments, names_for
from shared.api.core.references import to_pool
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.errors import DovetailError
from shared.log import get_logger
from shared.solver.plan import PlannedMachine
from shared.solver.pools.static import static_machine
from shared.solver.solve import SolverSettings

log = get_logger(__name__)


@dataclass
class StaticCapacity:
    """Keeps static pools at their size."""

    actions: MachineActions
    clock: Clock
    decisions: DecisionLog
    _waiting: dict[str, str] = field(default_factory=dict)
    """Pool -> why it waits, as the log said: passes come every second, and a class may be on its way out for hours."""

    async def reconcile(self, snapshot: Snapshot, busy: Set[str], settings: SolverSettings) -> None:
        """Check all static pools once. One that cannot be filled does not stop the others. ``busy``: UIDs, as for
        ``adjustments``."""
        before, self._waiting = self._waiting, {}
        for adjustment in adjustments(snapshot, busy_uids=busy, now=self.clock.now()):
            try:
                why = await self._adjust(adjustment, snapshot, settings)
            except DovetailError as error:
                why = error.message
            name = adjustment.pool.name
            if why:
                self._waiting[name] = why
            if why and before.get(name) != why:
                log.warning("static pool waits", pool=name, why=why)

    async def _adjust(
        self, adjustment: Adjustment, snapshot: Snapshot, settings: SolverSettings
    ) -> str:
        """Returns why the pool has to wait; empty when it has not."""
        if adjustment.missing:
            return await self._fill(adjustment, snapshot, settings)
        await self._shrink(adjustment)
        return ""

    async def _fill(
        self, adjustment: Adjustment, snapshot: Snapshot, settings: SolverSettings
    ) -> str:
        pool, missing = adjustment.pool, adjustment.missing
        planned = await asyncio.to_thread(static_machine, snapshot, pool, settings)
        if isinstance(planned, str):
            text = f"Pool is short of {missing} of its {pool.replicas} replicas: {planned}"
            await self.actions.env.recorder.publish(
                to_pool(pool), "Warning", "ReplicasMissing", text
            )
            return planned
        log.info(
            "provisioning nodeclaims to satisfy replica count", NodePool=pool.name, count=missing
        )
        mine = [m for m in snapshot.machines if m.pool_key == pool.key]
        wanted = [replace(planned, name=name) for name in names_for(pool, mine, missing)]
        created: list[PlannedMachine] = []
        try:
            for one in wanted:
                await self._create(one, snapshot, pool)
                created.append(one)
        finally:
            self.decisions.static_filled(pool, created)
        return ""

    async def _create(self, planned: PlannedMachine, snapshot: Snapshot, pool: NodePool) -> None:
        # The name follows from what there is, so a scheduler that takes over after a crash creates none twice.
        plan = f"{keys.STATIC_PLAN}{pool.uid}"
        made = await self.actions.create_or_adopt(planned, snapshot, plan=plan, reason="static")
        await self.actions.request_launch(made.key, f"static/{made.uid}")

    async def _shrink(self, adjustment: Adjustment) -> None:
        deleted: list[Machine] = []
        try:
            for machine in adjustment.surplus:
                if await self.actions.delete(machine):
                    deleted.append(machine)
                    log.info("deleting surplus of a static pool", machine=machine.name)
                    await self.actions.request_termination(machine, "static", machine.uid)
        finally:
            self.decisions.static_shrunk(adjustment.pool, deleted)
