"""Carries out what ``static_pools`` says: machines created or deleted until a pool has its number (GAT-01)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from msgspec.structs import replace

from services.scheduler.disruption.commands import Commands
from services.scheduler.static_capacity.adjustments import Adjustment, adjustments, names_for
from shared.clock import Clock
from shared.domain.snapshot import Snapshot
from shared.errors import DovetailError
from shared.log import get_logger
from shared.messages import TerminateMachine
from shared.solver.solve import SolverSettings
from shared.solver.static import static_machine

log = get_logger(__name__)


@dataclass
class Replicas:
    """Keeps static pools at their size."""

    commands: Commands
    clock: Clock

    async def keep(self, snapshot: Snapshot, settings: SolverSettings) -> None:
        """One look at all static pools. One that cannot be filled does not stop the others."""
        records = self.commands.records()
        held = {key for record in records for key in record.candidates}
        for adjustment in adjustments(snapshot, held, now=self.clock.now()):
            try:
                if adjustment.missing:
                    await self._fill(adjustment, snapshot, settings)
                else:
                    await self._shrink(adjustment)
            except DovetailError as error:
                log.warning("static pool waits", pool=adjustment.pool.name, error=error.message)

    async def _fill(
        self, adjustment: Adjustment, snapshot: Snapshot, settings: SolverSettings
    ) -> None:
        pool, missing = adjustment.pool, adjustment.missing
        planned = await asyncio.to_thread(static_machine, snapshot, pool, settings)
        if isinstance(planned, str):
            log.warning("cannot build machines of a static pool", pool=pool.name, why=planned)
            return
        log.info(
            "provisioning nodeclaims to satisfy replica count", NodePool=pool.name, count=missing
        )
        mine = [m for m in snapshot.machines if m.pool_key == pool.key]
        for name in names_for(pool, mine, missing):
            made = await self.commands.create(
                replace(planned, name=name), snapshot, cause=f"static/{pool.uid}", reason="static"
            )
            await self.commands.launch(made.key, f"static/{made.uid}")

    async def _shrink(self, adjustment: Adjustment) -> None:
        for machine in adjustment.surplus:
            if await self.commands.delete(machine):
                log.info("deleting surplus of a static pool", machine=machine.name)
                await self.commands.order(TerminateMachine.of(machine, "static"), machine.uid)
