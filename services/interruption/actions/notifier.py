"""Informs scheduler and terminator about deletions and unavailable offerings, gathered for a moment.

Neither needs it: both find deletion timestamps by themselves, a message only makes them find one sooner, and an
offering that is not marked costs one refused launch. So a Redis that hangs must not hold up a single deletion: callers
never wait, and what could not be sent is forgotten. Gathering makes one InterruptionReceived per kind out of a storm
of thousands of notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from services.interruption.actions.recent_interruptions import RecentInterruptions
from services.interruption.notices.notice import Notice, NoticeKind
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause, run_until
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import OfferingKey
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.messages import (
    InterruptionReceived,
    OutgoingMessage,
    TerminateMachine,
    send,
)
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.settings import InterruptionSettings

log = get_logger(__name__)

GATHER_SECONDS = 0.1
MOST_DELETIONS = 20_000
"""Deletions that wait to be sent; further ones are found without a message."""
INSTANCES_PER_MESSAGE = 1000
"""A message holds 64 KiB."""
TERMINATE_MESSAGES_AT_ONCE = 100
"""In a storm the terminator has more to do than it can begin, and learns of the others from the watcher."""
LAST_SEND_SECONDS = 2.0
"""How long a stopping process goes on sending."""
IDLE_SECONDS = 10.0


class Deletion(NamedTuple):
    """A machine that was deleted, its instance's id, and the notice that caused it."""

    machine: Machine
    instance: str
    notice: Notice
    trace: str = ""
    """The span of the notice; "" without tracing."""


@dataclass
class Notifier:
    """Call ``deleted`` and ``mark_unavailable`` from anywhere; ``run`` sends."""

    settings: InterruptionSettings
    bus: Bus
    unavailable: UnavailableOfferings
    clock: Clock
    history: ShortageHistory
    last_progress: float = 0.0
    _deletions: dict[str, Deletion] = field(default_factory=dict)
    """By machine key."""
    _offerings: set[OfferingKey] = field(default_factory=set)
    _work: asyncio.Event = field(default_factory=asyncio.Event)
    recent: RecentInterruptions = field(default_factory=RecentInterruptions)

    def deleted(self, machine: Machine, instance: str, notice: Notice, trace: str = "") -> None:
        """This machine was deleted because of ``notice``."""
        self.recent.note(machine, notice, now=self.clock.now())
        if len(self._deletions) < MOST_DELETIONS:
            self._deletions.setdefault(machine.key, Deletion(machine, instance, notice, trace))
            self._work.set()

    def mark_unavailable(self, offering: OfferingKey) -> None:
        """This offering has no capacity from now on. Needs no bound: a region has few offerings."""
        self._offerings.add(offering)
        self._work.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Send until ``stop``, then what is left, for at most two seconds."""
        while not stop.is_set():
            self.last_progress = self.clock.monotonic()
            await run_until(stop, pause(self._work, IDLE_SECONDS))
            if self._work.is_set():
                await pause(stop, GATHER_SECONDS)
                await self.send()
        try:
            async with asyncio.timeout(LAST_SEND_SECONDS):
                await self.send()
        except TimeoutError:
            return

    async def send(self) -> None:
        """Send everything that was gathered so far; ends at the first message that Redis does not take."""
        deletions, self._deletions = self._deletions, {}
        offerings, self._offerings = self._offerings, set()
        self._work.clear()
        # Offerings go first: the plan that the messages cause must not choose one of them.
        try:
            await self.unavailable.add(sorted(offerings), seconds=self.settings.unavailable_seconds)
        except TransientError as error:
            log.warning("cannot mark offerings", count=len(offerings), error=error.message)
        await self.history.add(sorted(offerings))
        for stream, message, cause, trace in messages_for(list(deletions.values())):
            if not await send(
                self.bus, stream, message, cause=cause, clock=self.clock, trace=trace
            ):
                return


def messages_for(deletions: list[Deletion]) -> Iterator[OutgoingMessage]:
    """The scheduler's first, because a replacement takes longest."""
    kinds: dict[NoticeKind, list[Deletion]] = {}
    for deletion in deletions:
        kinds.setdefault(deletion.notice.kind, []).append(deletion)
    for kind, several in kinds.items():
        for start in range(0, len(several), INSTANCES_PER_MESSAGE):
            received = _received(kind, several[start : start + INSTANCES_PER_MESSAGE])
            yield OutgoingMessage(
                streams.INTERRUPTIONS, received, received.event, several[start].trace
            )
    for machine, _, notice, trace in deletions[:TERMINATE_MESSAGES_AT_ONCE]:
        order = TerminateMachine.of(machine, notice.kind)
        yield OutgoingMessage(streams.TERMINATIONS, order, notice.id, trace)


def _received(kind: NoticeKind, deletions: list[Deletion]) -> InterruptionReceived:
    """One message for all of these, with the earliest deadline among them."""
    deadlines = [one.notice.deadline for one in deletions if one.notice.deadline is not None]
    return InterruptionReceived(
        kind=kind,
        instances=tuple(one.instance for one in deletions),
        deadline=min(deadlines, default=None),
        event=deletions[0].notice.id,
    )
