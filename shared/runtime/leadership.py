"""One process of a service acts, the others stand by warm (OPS-11, F14).

A loop that acts is wrapped by ``led``: it runs only while this process holds the service's Lease, and is cancelled
when the Lease is lost. Every act of ours survives being cut off anywhere, so cutting is safe; going on without the
Lease would not be. Loops that only read (watches, the mirror) run in the standby too, which is why it takes over fast.

What may go wrong: two processes believe that they lead, because one was stopped for a while. Its loops are cancelled
within ``LOOK_SECONDS`` of waking up; what it sends off before that carries an old ``epoch``: the launcher refuses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause, run_until
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.lease import Lease, current_epoch
from shared.runtime.services import Loop

LOOK_SECONDS = 0.5
FINISH_SECONDS = 15.0
"""After the order to stop, the Lease is kept this long for loops that finish what they hold."""


@dataclass
class Leadership:
    """Whether this process may act. Without a Lease (leader election is off) it always may."""

    lease: Lease | None
    clock: Clock
    _lost: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _terms: int = 0

    def __post_init__(self) -> None:
        self._idle.set()

    @property
    def held(self) -> bool:
        """Ask right before every act that cannot be taken back."""
        return self.lease is None or self.lease.held

    @property
    def epoch(self) -> int:
        """The fencing epoch of our term; 0 without a Lease."""
        return self.lease.epoch if self.lease is not None else 0

    def status(self) -> dict[str, object]:
        """For ``/status``."""
        return {"leading": self.held, "epoch": self.epoch}

    def led(self, loop: Loop) -> Loop:
        """The same loop, running only while we lead."""
        if self.lease is None:
            return loop
        inner, progress = loop.run, loop.progress

        async def run(stop: asyncio.Event) -> None:
            while not stop.is_set():
                if self.held and not self._lost.is_set():
                    await self._term(inner, stop)
                else:
                    loop.succeeded(self.clock.monotonic())
                    await pause(stop, LOOK_SECONDS)

        def latest() -> float:
            """A standby makes progress by standing by."""
            if not self.held:
                return self.clock.monotonic()
            return max(loop.beat, progress() if progress else loop.beat)

        # The same loop, so that what the runtime and the loop itself note about it meets.
        loop.run, loop.progress = run, latest
        return loop

    def loops(self) -> list[Loop]:
        """The election itself; none when it is off."""
        lease = self.lease
        if lease is None:
            return []

        async def elect(stop: asyncio.Event) -> None:
            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(lease.run(over))
                await stop.wait()
                await pause(self._idle, FINISH_SECONDS)
                over.set()

        return [
            Loop("lease", elect, progress=lambda: lease.last_progress),
            Loop("lead", self._watch, progress=self.clock.monotonic),
        ]

    async def _watch(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            if self.held:
                self._lost.clear()
            else:
                self._lost.set()
            await pause(stop, LOOK_SECONDS)

    async def _term(
        self, inner: Callable[[asyncio.Event], Coroutine[None, None, None]], stop: asyncio.Event
    ) -> None:
        """Run until the order to stop or the end of our lead."""
        self._terms += 1
        self._idle.clear()
        try:
            await run_until(self._lost, inner(stop))
        finally:
            self._terms -= 1
            if not self._terms:
                self._idle.set()


async def epoch_now(kube: Kube, name: str, namespace: str) -> int:
    """The epoch that may spend now, by a quorum read; 0 when nobody ever led (F14)."""
    try:
        return await current_epoch(kube, name, namespace)
    except NotFound:
        return 0
