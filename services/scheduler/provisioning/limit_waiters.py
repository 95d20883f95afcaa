"""Withdraws machines that wait for room in their pool's limits when nobody needs them any more (BAT-08).

The launcher lets such a machine wait until LAUNCH_TIMEOUT, and all that time plans count on it. Its pods may be placed
elsewhere meanwhile, or be gone. One is withdrawn when two checks in a row find that no pod is promised to it and that a
plan puts none on it. Never a machine of a command or of a static pool, which have controllers of their own, and never
one that may have an instance.

What may go wrong: the launcher begins to launch it in the very moment. Then its LaunchRecord is written before the
machine goes, and the terminator ends what it started, as for every machine that is deleted during its launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from services.scheduler.provisioning.planner import Solver
from services.scheduler.state.cluster import ClusterState, pods_to_move
from shared.concurrency.clock import Clock
from shared.domain.machines.machine import LAUNCHED, Machine
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.runtime.leadership import Leadership
from shared.solver.plan import Plan
from shared.solver.reasons import OUT_OF_TIME

log = get_logger(__name__)

CHECK_SECONDS = 10.0
LIMITS_EXCEEDED = "LimitsExceeded"


@dataclass
class LimitWaiters:
    clock: Clock
    cluster: ClusterState
    solver: Solver
    machines: Machines
    kube: Kube
    leadership: Leadership
    settled: Callable[[Iterable[Pod]], Sequence[Pod]]
    """Pods as the planner counts them: nominated ones occupy their node."""
    replacements: Callable[[], set[str]]
    """Keys of the machines that disruption commands wait for."""
    _unneeded: frozenset[str] = frozenset()
    """UIDs, of the last check."""

    async def step(self) -> None:
        """One check. A machine that cannot be withdrawn does not stop the others."""
        held = self.replacements()
        machines = self.cluster.view.machines()
        waiting = [m for m in machines if waits_for_limits(m) and m.key not in held]
        if not waiting or self.cluster.not_synced():
            self._unneeded = frozenset()
            return
        snapshot = await self._snapshot()
        if snapshot is None:
            return
        found = unneeded(waiting, await self._plan(snapshot), snapshot)
        before, self._unneeded = self._unneeded, frozenset(machine.uid for machine in found)
        for machine in found:
            if machine.uid in before:
                await self._withdraw(machine)

    async def _snapshot(self) -> Snapshot | None:
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return None
        settled = replace(snapshot, pods=tuple(self.settled(snapshot.pods)))
        return await self.solver.asked(settled, self.solver.question(()))

    async def _plan(self, snapshot: Snapshot) -> Plan:
        moving = pods_to_move(snapshot, now=self.clock.now())
        return await self.solver.plan(snapshot, self.solver.question(moving))

    async def _withdraw(self, machine: Machine) -> None:
        try:
            # From the API server: the launcher may have begun since the mirror was written. The deletion below is bound
            # to this version, so it may not begin in between either.
            stored = await self.machines.stored(machine.key)
            if stored.machine.uid != machine.uid or not waits_for_limits(stored.machine):
                return
            if await self._is_recorded(machine) or not self.leadership.held:
                return
            if await self.machines.delete(machine, version=stored.version):
                log.info("nobody needs this machine any more", machine=machine.name)
        except DovetailError as error:
            log.warning("cannot withdraw", machine=machine.name, error=error.message)

    async def _is_recorded(self, machine: Machine) -> bool:
        """Whether a launch of it was ever begun."""
        records = await self.kube.read_all(LAUNCH_RECORDS, _named)
        return any(machine.name in names for names in records)


def waits_for_limits(machine: Machine) -> bool:
    """Not launched, because its pool has no room."""
    launched = machine.conditions.get(LAUNCHED)
    waits = launched is not None and (launched.status, launched.reason) == (
        "Unknown", LIMITS_EXCEEDED,
    )  # fmt: skip
    return waits and not machine.provider_id and not machine.terminating and bool(machine.pool)


def unneeded(waiting: Iterable[Machine], plan: Plan, snapshot: Snapshot) -> list[Machine]:
    """Those on which no pod is, nor does the plan put one there. A plan that ran out of time says nothing."""
    # A pod that is promised to a machine has its name in the snapshot, so the plan does not place it once more.
    needed = {pod.node_name for pod in snapshot.pods} | {
        n for n, pods in plan.existing.items() if pods
    }
    static = {pool.key for pool in snapshot.pools if pool.is_static}
    if any(reason == OUT_OF_TIME for reason in plan.unschedulable.values()):
        return []
    return [m for m in waiting if m.pool_key not in static and m.name not in needed]


def _named(raw: Any) -> frozenset[str]:
    """Names of a LaunchRecord's machines."""
    machines = (raw.get("spec") or {}).get("machines") or ()
    return frozenset(str(one.get("name")) for one in machines)
