"""What every part of the launcher writes about a Machine: events, its deletion, and messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.launcher.ports import Ports
from shared.api.core.references import to_machine
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.kube.machines import Machines
from shared.log import get_logger
from shared.redis import streams
from shared.redis.messages import EndInstance, Message, TerminateMachine, send

log = get_logger(__name__)

MOST_LAUNCHES = 10_000
"""Launches that are remembered until their nodes are seen."""
EVENT_SECONDS = 120.0
"""An equal event within this time is not repeated (EVT-01)."""


@dataclass
class MachineWriter:
    """Writes with the Machine's UID as a precondition: a new Machine of the same name is never touched."""

    ports: Ports
    machines: Machines
    _launches: dict[str, str] = field(default_factory=dict)
    """Provider id -> key of the machine that got this instance lately; incomplete."""

    def remember_launch(self, provider_id: str, key: str) -> None:
        """Spares whoever sees the node of this instance a list of all machines."""
        if len(self._launches) >= MOST_LAUNCHES:
            self._launches.clear()
        self._launches[provider_id] = key

    def take_launch(self, provider_id: str) -> str | None:
        """The key of the machine that got this instance lately, once; None when that is not known."""
        return self._launches.pop(provider_id, None)

    async def delete(self, machine: Machine, reason: str) -> bool:
        """Order the termination of this Machine. False when it was gone already."""
        if not await self.machines.delete(machine):
            return False
        order = TerminateMachine.of(machine, reason)
        await self.send(streams.TERMINATIONS, order, machine.uid)
        return True

    async def end_instances(self, ids: Iterable[str], reason: str) -> None:
        """Order the end of instances that no machine owns. The terminator reads whose they are before it acts.

        A sweep that finds one again orders it again, so a lost order costs the time until the next sweep.
        """
        cause = rfc3339(self.ports.clock.now())
        for instance in ids:
            await self.send(
                streams.TERMINATIONS, EndInstance(instance=instance, reason=reason), cause
            )

    async def send(self, stream: str, message: Message, cause: str) -> None:
        """Publish a message. ``cause`` distinguishes a new message from a repeat of the same one."""
        await send(self.ports.bus, stream, message, cause=cause, clock=self.ports.clock)

    def trace(
        self, machine: Machine, name: str, *, after: str = "", error: str = "", **about: str
    ) -> None:
        """A span in the machine's trace that ends now. ``after``: the condition whose transition it begins with."""
        ports, parent = self.ports, machine.annotations.get(keys.TRACE_ANNOTATION, "")
        if not parent or not ports.tracer.enabled:
            return
        now, before = ports.clock.now(), machine.conditions.get(after)
        start = before.since if before and before.since else now
        own = {"machine": machine.name, "pool": machine.pool, **about}
        ports.tracer.record(name, parent=parent, start=start, end=now, error=error, **own)

    async def event(
        self,
        machine: Machine,
        kind: str,
        reason: str,
        text: str,
        *,
        dedupe_seconds: float = EVENT_SECONDS,
    ) -> None:
        await self.ports.recorder.publish(
            to_machine(machine), kind, reason, text, dedupe_seconds=dedupe_seconds
        )
