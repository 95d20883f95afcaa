"""The terminator's list of open terminations: one task each, many at once, all of them found again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.terminator.termination import DONE, Termination
from shared.bus import Envelope
from shared.domain import labels as keys
from shared.errors import Conflict, DovetailError
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES
from shared.log import get_logger
from shared.messages import TerminateMachine, decode
from shared.metrics import Metrics
from shared.runtime import pause

log = get_logger(__name__)

MOST_AT_ONCE = 100
LONGEST_PAUSE_SECONDS = 10.0


@dataclass
class Work:
    """Open terminations by (kind, name)."""

    termination: Termination
    kube: Kube
    metrics: Metrics
    poll_seconds: float
    last_progress: float = 0.0
    """Monotonic time of the last look for new work."""
    _new: asyncio.Queue[tuple[str, str]] = field(default_factory=asyncio.Queue)
    _open: set[tuple[str, str]] = field(default_factory=set)

    @property
    def open(self) -> list[str]:
        """For the status page."""
        return sorted(f"{kind}/{name}" for kind, name in self._open)

    async def handle(self, envelope: Envelope) -> None:
        """A message: look at this object. Its deletion timestamp decides, not the message."""
        message = decode(envelope)
        if isinstance(message, TerminateMachine):
            self._add(message.kind, message.name)

    async def resync(self) -> None:
        """List everything that is being deleted (R2)."""
        before = len(self._open)
        for resource in (MACHINES, NODE_CLAIMS, NODES):
            for raw in (await self.kube.list(resource)).items:
                meta = raw["metadata"]
                ours = keys.FINALIZER in (meta.get("finalizers") or ())
                if meta.get("deletionTimestamp") and ours:
                    self._add(resource.kind, meta["name"])
        self.metrics.resync_found_work.labels("terminator").inc(max(0, len(self._open) - before))

    def _add(self, kind: str, name: str) -> None:
        if (kind, name) not in self._open:
            self._open.add((kind, name))
            self._new.put_nowait((kind, name))

    async def run(self, stop: asyncio.Event) -> None:
        """Work on everything that is open until ``stop``."""
        gate = asyncio.Semaphore(MOST_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                self.last_progress = self.termination.clock.monotonic()
                try:
                    item = await asyncio.wait_for(self._new.get(), 1.0)
                except TimeoutError:
                    continue
                group.create_task(self._terminate(item, gate, stop))

    async def _terminate(
        self, item: tuple[str, str], gate: asyncio.Semaphore, stop: asyncio.Event
    ) -> None:
        kind, name = item
        try:
            async with gate:
                if kind == "Node":
                    await self._until_done(name, self.termination.step_node, stop)
                else:
                    await self._until_done(f"{kind}/{name}", self.termination.step_machine, stop)
        finally:
            self._open.discard(item)

    async def _until_done(
        self, name: str, step: Callable[[str], Awaitable[bool]], stop: asyncio.Event
    ) -> None:
        wait = self.poll_seconds
        while not stop.is_set():
            try:
                if await step(name) is DONE:
                    return
                wait = self.poll_seconds
            except Conflict:
                wait = self.poll_seconds
            except DovetailError as error:
                log.warning("termination step failed", name=name, error=error.message)
                wait = min(wait * 2, LONGEST_PAUSE_SECONDS)
            await pause(stop, wait)
