"""Leader election: one process of a service acts, the others are hot standbys (OPS-11, F14).

A loop that acts is wrapped by ``led``: it runs only while this process holds the service's Lease, and is cancelled
when the Lease is lost. Every action is crash-safe, so a cancellation is safe at any point; an action without the Lease
would not be. Loops that only read (watches, the mirror) also run in a standby, so that it takes over quickly.

Two processes may both believe that they lead after one of them was suspended. The loops of the suspended process are
cancelled within ``LEASE_CHECK_SECONDS`` after it resumes; messages that it sends before carry an old ``epoch``, which
the launcher refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause, run_until
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.lease import Lease, current_epoch
from shared.runtime.services import Loop

LEASE_CHECK_SECONDS = 0.5
FINISH_SECONDS = 15.0
"""How long the Lease is kept after the stop event, for loops that finish their current work."""


@dataclass
class Leadership:
    """Whether this process may act. Without a Lease (leader election is disabled) it always may."""

    lease: Lease | None
    clock: Clock
    scope: str = ""
    """Prefix of the names of its loops, where a process takes part in several elections."""
    _gained: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while this process leads, and when it stops: what its loops wait for."""
    _lost: asyncio.Event = field(default_factory=asyncio.Event)
    _idle: asyncio.Event = field(default_factory=asyncio.Event)
    _terms: int = 0
    _looked: float | None = None
    """Monotonic time of the last look at the Lease."""

    def __post_init__(self) -> None:
        self._idle.set()

    @property
    def held(self) -> bool:
        """Whether this process leads now. To be checked directly before every irreversible action."""
        return self.lease is None or self.lease.held

    @property
    def epoch(self) -> int:
        """The fencing epoch of this process' term; 0 without a Lease."""
        return self.lease.epoch if self.lease is not None else 0

    def status(self) -> dict[str, object]:
        """The fields for ``/status``."""
        return {"leading": self.held, "epoch": self.epoch}

    def led(self, loop: Loop) -> Loop:
        """``loop``, changed to run only while this process leads."""
        if self.lease is None:
            return loop
        inner, progress = loop.run, loop.progress

        async def run(stop: asyncio.Event) -> None:
            while not stop.is_set():
                if self.held and not self._lost.is_set():
                    await self._term(inner, stop)
                else:
                    loop.succeeded(self.clock.monotonic())
                    # ``held`` ends without a sign: until ``_follow`` sees that, the event would end every pause.
                    self._gained.clear()
                    await pause(self._gained, LEASE_CHECK_SECONDS)

        def latest() -> float:
            """Monotonic time of the last progress; a standby always makes progress."""
            if not self.held:
                return self.clock.monotonic()
            return max(loop.beat, (progress() if progress else None) or loop.beat)

        # The same object, because both the runtime and the loop itself record its state on it.
        loop.run, loop.progress = run, latest
        return loop

    def loops(self) -> list[Loop]:
        """The loops of the election; none when it is disabled."""
        lease = self.lease
        if lease is None:
            return []

        async def elect(stop: asyncio.Event) -> None:
            over = asyncio.Event()
            async with TaskGroup() as group:
                group.create_task(lease.run(over))
                await stop.wait()
                await pause(self._idle, FINISH_SECONDS)
                over.set()

        async def watch(stop: asyncio.Event) -> None:
            await self._watch(stop, lease)

        return [
            Loop(f"{self.scope}lease", elect, progress=lambda: lease.last_progress),
            Loop(f"{self.scope}lead", watch, progress=lambda: self._looked),
        ]

    async def _watch(self, stop: asyncio.Event, lease: Lease) -> None:
        await run_until(stop, self._follow(lease))
        self._gained.set()

    async def _follow(self, lease: Lease) -> None:
        while True:
            self._looked = self.clock.monotonic()
            if lease.held:
                self._lost.clear()
                self._gained.set()
            else:
                self._gained.clear()
                self._lost.set()
            if lease.acquired.is_set():  # ``held`` ends without a sign
                await asyncio.sleep(LEASE_CHECK_SECONDS)
            else:
                await pause(lease.acquired, LEASE_CHECK_SECONDS)

    async def _term(
        self, inner: Callable[[asyncio.Event], Coroutine[None, None, None]], stop: asyncio.Event
    ) -> None:
        """Run ``inner`` until ``stop`` is set or the Lease is lost."""
        self._terms += 1
        self._idle.clear()
        try:
            await run_until(self._lost, inner(stop))
        finally:
            self._terms -= 1
            if not self._terms:
                self._idle.set()


async def epoch_now(kube: Kube, name: str, namespace: str) -> int:
    """The current fencing epoch, by a quorum read; 0 when there never was a leader (F14)."""
    try:
        return await current_epoch(kube, name, namespace)
    except NotFound:
        return 0
