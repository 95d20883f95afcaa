"""News about what was deleted and what is short now, gathered for a moment and told together.

Neither terminator nor scheduler needs to hear it: both find deletion timestamps by themselves, told they find them
sooner, and an offering that is not marked costs one refused launch. So a Redis that hangs must not hold up a single
deletion: whoever rings goes on at once, and what nobody could be told is forgotten. Gathering makes one storm one
InterruptionReceived per kind instead of thousands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from services.interruption.notices.notice import Notice
from shared import streams
from shared.bus import Bus
from shared.clock import Clock
from shared.concurrency.waiting import pause, run_until
from shared.domain.machines import Machine
from shared.domain.snapshot import OfferingKey
from shared.errors import TransientError
from shared.log import get_logger
from shared.messages import InterruptionReceived, Message, TerminateMachine, send
from shared.mirror.offerings import UnavailableOfferings
from shared.settings import InterruptionSettings

log = get_logger(__name__)

GATHER_SECONDS = 0.1
LIMIT = 20_000
"""Machines that wait to be told of; further ones are found without a bell."""
INSTANCES_PER_MESSAGE = 1000
"""A message holds 64 KiB."""
ORDERS_AT_ONCE = 100
"""In a storm the terminator has more to do than it can begin, and hears of the others from the watcher."""
TOLD_SECONDS = 2.0
IDLE_SECONDS = 10.0


@dataclass
class Bells:
    """``ring`` and ``mark`` from anywhere, ``run`` tells."""

    settings: InterruptionSettings
    bus: Bus
    unavailable: UnavailableOfferings
    clock: Clock
    last_progress: float = 0.0
    _rung: dict[str, tuple[Machine, str, Notice]] = field(default_factory=dict)
    _short: set[OfferingKey] = field(default_factory=set)
    _ready: asyncio.Event = field(default_factory=asyncio.Event)

    def ring(self, machine: Machine, instance: str, notice: Notice) -> None:
        """This machine was deleted because of ``notice``."""
        if len(self._rung) < LIMIT:
            self._rung.setdefault(machine.key, (machine, instance, notice))
            self._ready.set()

    def mark(self, offering: OfferingKey) -> None:
        """This offering is short from now on; there are fewer offerings than fit in a region."""
        self._short.add(offering)
        self._ready.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Tell until ``stop``, then what is left, for at most two seconds."""
        while not stop.is_set():
            self.last_progress = self.clock.monotonic()
            await run_until(stop, self._rang())
            if self._ready.is_set():
                await pause(stop, GATHER_SECONDS)
                await self.tell()
        try:
            async with asyncio.timeout(TOLD_SECONDS):
                await self.tell()
        except TimeoutError:
            return

    async def _rang(self) -> None:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            return

    async def tell(self) -> None:
        """Send everything that was rung so far; ends at the first that Redis does not take.

        Marks go first: the plan that the bells ask for must not choose these offerings.
        """
        rung, self._rung = self._rung, {}
        short, self._short = self._short, set()
        self._ready.clear()
        try:
            await self.unavailable.mark(sorted(short), seconds=self.settings.unavailable_seconds)
        except TransientError as error:
            log.warning("cannot mark offerings", count=len(short), error=error.message)
        for stream, message, cause in messages(list(rung.values())):
            if not await send(self.bus, stream, message, cause=cause, clock=self.clock):
                return


def messages(rung: list[tuple[Machine, str, Notice]]) -> Iterator[tuple[str, Message, str]]:
    """(stream, message, cause): the scheduler first, because a replacement takes longest."""
    kinds: dict[str, list[tuple[str, Notice]]] = {}
    for _, instance, notice in rung:
        kinds.setdefault(notice.kind, []).append((instance, notice))
    for kind, several in kinds.items():
        for start in range(0, len(several), INSTANCES_PER_MESSAGE):
            part = several[start : start + INSTANCES_PER_MESSAGE]
            event = part[0][1].id
            deadlines = [notice.deadline for _, notice in part if notice.deadline is not None]
            received = InterruptionReceived(
                kind=kind,
                instances=tuple(instance for instance, _ in part),
                deadline=min(deadlines, default=None),
                event=event,
            )
            yield streams.INTERRUPTIONS, received, event
    for machine, _, notice in rung[:ORDERS_AT_ONCE]:
        yield streams.TERMINATIONS, TerminateMachine.of(machine, notice.kind), notice.id
