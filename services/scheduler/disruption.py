"""Carries out what ``emptiness`` decided: condition, event, and at last the deletion of the Machine.

The deletion is the decision's record (M-05: the Provisioner owns the Machine, its finalizer starts the termination);
the message to the terminator only makes it fast. Right before it the node's pods are listed from the API server:
nothing is destroyed on the word of a mirror (R5, R7).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.scheduler.emptiness import Emptiness, occupied_nodes, review, within_budgets
from services.scheduler.planning import Planner
from services.scheduler.view import View
from shared import streams
from shared.api.pods import parse_pod
from shared.api.references import to_machine
from shared.bus import Bus
from shared.clock import Clock
from shared.domain.machines import EMPTY, Condition, Machine
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import PODS
from shared.log import get_logger
from shared.messages import EmptyNodeDecided, TerminateMachine, send
from shared.metrics import Metrics

log = get_logger(__name__)

TOLD_SECONDS = 10.0
"""After this long the mirror must show our last write; if not, it got lost and is written again."""


@dataclass
class Disruption:
    """The voluntary removal of machines."""

    view: View
    planner: Planner
    kube: Kube
    machines: Machines
    bus: Bus
    clock: Clock
    metrics: Metrics
    recorder: Recorder
    _told: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Machine UID -> what we wrote last, and when (monotonic)."""

    async def step(self) -> None:
        """Look once at every machine."""
        if self.planner.not_synced():
            return
        machines, pools = self.view.machines(now=self.clock.monotonic()), self.view.pools()
        now = self.clock.now()
        acts = review(
            machines,
            self.view.nodes(),
            pools,
            occupied_nodes(self.view.pods()),
            self.planner.nominated(),
            now=now,
        )
        for act in within_budgets(acts, machines, pools, now=now):
            try:
                await self._carry_out(act)
            except (NotFound, Conflict) as error:
                log.info("overtaken by a change", machine=act.machine.name, error=error.message)

    async def _carry_out(self, act: Emptiness) -> None:
        now = self.clock.monotonic()
        self._told = {
            uid: (last, at) for uid, (last, at) in self._told.items() if now - at < TOLD_SECONDS
        }
        if self._told.get(act.machine.uid, ("", 0.0))[0] == act.act:
            return  # the mirror does not show our last write yet
        if act.act != "terminate":
            await self._mark(act)
        elif not await self._terminate(act):
            return
        self._told[act.machine.uid] = act.act, now

    async def _mark(self, act: Emptiness) -> None:
        empty = act.act == "mark"
        condition = Condition("True" if empty else "False", since=self.clock.now())
        await self.machines.write_condition(act.machine, EMPTY, condition)
        message = "added TTL to empty node" if empty else "removed emptiness TTL from node"
        log.info(message, node=act.node.name, machine=act.machine.name, ttl_seconds=act.ttl_seconds)

    async def _terminate(self, act: Emptiness) -> bool:
        """Delete the Machine. False when its node turned out to hold pods."""
        listed = await self.kube.list(PODS, field_selector=f"spec.nodeName={act.node.name}")
        if occupied_nodes(parse_pod(raw) for raw in listed.items):
            log.info("node is not empty any more", node=act.node.name)
            return False
        machine = act.machine
        if not await self.machines.delete(machine):
            return False
        text = f"triggering termination after {act.ttl_seconds:.0f}s for empty node"
        log.info(text, node=act.node.name, machine=machine.name)
        await self.recorder.publish(to_machine(machine), "Normal", "DisruptionTerminating", text)
        self.metrics.machines_disrupted.labels("empty", machine.pool, machine.capacity_type).inc()
        await self._ring(machine, act.empty_seconds)
        return True

    async def _ring(self, machine: Machine, empty_seconds: float) -> None:
        order = TerminateMachine.of(machine, "empty")
        decided = EmptyNodeDecided(machine=machine.key, empty_seconds=empty_seconds)
        for stream, message in ((streams.TERMINATIONS, order), (streams.DECISIONS, decided)):
            await send(self.bus, stream, message, cause=f"empty/{machine.uid}", clock=self.clock)
