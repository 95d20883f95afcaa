"""Turns the planned machines of a plan into Machines on the API server, and requests their launch."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from services.scheduler.actions import MachineActions, key_of
from services.scheduler.evidence.need import Need
from shared.concurrency.parallel import in_parallel
from shared.domain.resources import exceeded, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import AlreadyExists, DovetailError
from shared.log import get_logger
from shared.runtime.leadership import Leadership
from shared.solver.plan import Plan, PlannedMachine

log = get_logger(__name__)

CREATIONS_AT_ONCE = 16
"""Machines that are checked and written at the same time: the API server is shared with all other clients."""


@dataclass
class MachineCreation:
    """Creates Machines that somebody needs, while this process leads."""

    actions: MachineActions
    need: Need
    leadership: Leadership

    async def create(
        self, wanted: list[PlannedMachine], plan: Plan, snapshot: Snapshot
    ) -> list[PlannedMachine]:
        """Those of ``wanted``, which belong to ``plan``, that exist now. One that fails does not stop the others."""
        pods = {pod.uid: pod for pod in snapshot.pods}
        waiting = await self._listed(len(wanted))

        async def create(planned: PlannedMachine) -> bool:
            # Asked for every machine: another scheduler may have begun to plan while we waited (F14).
            if not self.leadership.held or not await self._is_needed(planned, pods, waiting):
                return False
            return await self._create_one(planned, plan, snapshot)

        done = await in_parallel(map(create, wanted), most=CREATIONS_AT_ONCE)
        return [planned for planned, ok in zip(wanted, done, strict=True) if ok]

    async def _listed(self, machines: int) -> frozenset[str]:
        try:
            return await self.need.listed(machines)
        except DovetailError as error:
            log.info("pods are read one by one", error=error.message)
            return frozenset()

    async def _is_needed(
        self, planned: PlannedMachine, pods: Mapping[str, Pod], waiting: Set[str]
    ) -> bool:
        """No machine for pods that are gone or placed, whatever the mirror shows (BAT-05)."""
        try:
            needed = await self.need.is_proven(planned.pods, pods, waiting)
        except DovetailError as error:
            log.warning("cannot read pods", machine=planned.name, error=error.message)
            return False
        if not needed:
            log.info("nobody needs this machine any more", machine=planned.name)
        return needed

    async def _create_one(self, planned: PlannedMachine, plan: Plan, snapshot: Snapshot) -> bool:
        pool = next(pool for pool in snapshot.pools if pool.key == planned.pool_key)
        over = exceeded(sum_of([pool.usage]), pool.limits)
        if over:  # Limits are checked again when a Machine is created (BAT-08).
            log.warning("limit reached", pool=pool.name, resources=over)
            return False
        try:
            await self.actions.create(planned, snapshot, plan=plan.id, reason="provisioned")
        except AlreadyExists:
            pass  # the same plan, made before a crash: only the launch request may be missing
        except DovetailError as error:
            log.warning("cannot create machine", machine=planned.name, error=error.message)
            return False
        await self.actions.request_launch(key_of(planned), plan.id)
        return True
