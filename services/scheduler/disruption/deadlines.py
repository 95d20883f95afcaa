"""Deletes machines whose time is up: v1 machines that expired (DIS-60) and the machines of pools that close.

Neither budgets, replacements nor a simulation hold them; only the kill switch of their pool does.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.actions import MachineActions
from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.reporting import DisruptionReporter
from services.scheduler.state.cluster import ClusterState
from shared.disruption.methods import expiration
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools import hours


@dataclass(frozen=True)
class Deadlines:
    """Of the machines that the mirror shows."""

    cluster: ClusterState
    actions: MachineActions
    reporter: DisruptionReporter
    commands: Commands

    async def delete(self, *, now: float) -> None:
        """Delete those that are due. ``now`` by a clock that is known to be right, seconds. Raises TransientError."""
        await self._expire(now)
        await self._close(now)

    async def _expire(self, now: float) -> None:
        view = self.cluster.view
        pools = view.pools()
        for machine in expiration.forceful(view.machines(), now=now):
            pool = pools.get(machine.pool_key)
            if pool is not None and pool.disruption_off:
                continue
            if await self.actions.delete(machine):
                await self.reporter.expired(machine, self._node_of(machine))
                await self.actions.request_termination(machine, "expired", machine.uid)

    async def _close(self, now: float) -> None:
        pools = [p for p in self.cluster.view.pools().values() if not p.disruption_off]
        if not any(pool.drains_when_closed for pool in pools):
            return
        busy, machines = self.commands.busy(), self.cluster.view.machines()
        for machine in hours.outside_hours(machines, pools, now=now):
            if machine.uid not in busy and await self.actions.delete(machine):
                await self.reporter.closed(machine, self._node_of(machine))
                await self.actions.request_termination(machine, "closed", machine.uid)

    def _node_of(self, machine: Machine) -> Node | None:
        return self.cluster.view.nodes().get(machine.node_name)
