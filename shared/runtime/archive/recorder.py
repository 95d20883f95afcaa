"""Hands what the scheduler saw and decided to the archive, beside its own work.

``note``, ``taken`` and ``decided`` only append to a queue; ``step`` encodes in a thread and stores. What may go wrong:
the store does not answer, is full, or refuses us: documents wait within a bound, then they are lost and a new series
begins. More changes than the queue holds: the same. Neither stops a decision; ``problem`` says what is wrong.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.concurrency.clock import Clock
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import Snapshot
from shared.errors import DovetailError
from shared.log import get_logger
from shared.runtime.archive.store import Store
from shared.runtime.archive.writing import (
    Draft,
    Item,
    LogWriter,
    Noted,
    Reset,
    Taken,
    copied,
    sizes,
)
from shared.simulation.decisions.contents import Objects
from shared.simulation.decisions.names import folder, role_of
from shared.simulation.decisions.retention import Retention, surplus

log = get_logger(__name__)

STEP_SECONDS = 1.0
CHUNK_SECONDS = 10.0
"""What a crash may lose of the records."""
MOST_QUEUED = 200_000
MOST_WAITING_BYTES = 32 << 20
"""Documents that wait for the store."""
RETRY_SECONDS = 10.0
RETENTION_SECONDS = 600.0
STOP_SECONDS = 5.0
"""How long the end of the process waits for the store."""


@dataclass(frozen=True)
class Counts:
    """Called with what happened, for metrics."""

    records: Callable[[int], None]
    stored_bytes: Callable[[int], None]
    failures: Callable[[int], None]
    lost: Callable[[int], None]
    size: Callable[[int], None]
    """Bytes of the whole archive."""


@dataclass
class DecisionRecorder:
    """Records one scheduler. ``contents``: the mirror's objects now, as the changes that were noted lead to."""

    store: Store
    writer: LogWriter
    retention: Retention
    clock: Clock
    counts: Counts
    contents: Callable[[], Objects]
    problem: str = ""
    """Why records are not kept; empty when they are."""
    _queue: deque[Item] = field(default_factory=deque)
    _position: int = 0
    _retry_at: float = float("-inf")
    _retention_at: float = float("-inf")

    def status(self) -> dict[str, object]:
        """For ``/status``."""
        return {"kept": True, "records": self.writer.records, "problem": self.problem}

    def note(self, kind: str, key: str, body: bytes | None, generation: int) -> None:
        """A change of the mirror, which ``contents`` has already."""
        self._append(Noted(kind, key, body, generation, self.clock.now()))
        self._position += 1

    def taken(self, shown: Snapshot, snapshot: Snapshot, own: tuple[Machine, ...]) -> Taken:
        """A snapshot for a decision, at the moment it was taken. Arguments as of ``Taken``."""
        made = Taken(self._position, self.clock.now(), shown, snapshot, own)
        self._append(made)
        return made

    def decided(self, draft: Draft) -> None:
        """The decision on a snapshot that was ``taken``."""
        self._append(draft)

    def _append(self, item: Item) -> None:
        if len(self._queue) >= MOST_QUEUED:
            self._lose("more changes than can be recorded", len(self._queue))
            self._queue.append(Reset(copied(self.contents()), self._position))
        self._queue.append(item)

    def _lose(self, why: str, count: int) -> None:
        self.counts.lost(count)
        self.problem = f"decisions are not recorded: {why}"
        self._queue.clear()
        log.warning("records are lost", reason=why, entries=count)

    async def step(self) -> None:
        """Encode and store what came in."""
        await self._encode(CHUNK_SECONDS)
        await self._store()
        if not self.problem and self.clock.monotonic() >= self._retention_at:
            self._retention_at = self.clock.monotonic() + RETENTION_SECONDS
            await self._retain()

    async def close(self) -> None:
        """Store what is left, within a bound of time."""
        await self._encode(0.0)
        self._retry_at = float("-inf")
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._store()
        except TimeoutError:
            log.warning("the last records are lost", reason="the store does not answer")
        await self.store.close()

    async def _encode(self, seconds: float) -> None:
        items = [self._queue.popleft() for _ in range(len(self._queue))]
        before = self.writer.records
        await asyncio.to_thread(self._work, items, seconds)
        self.counts.records(self.writer.records - before)

    def _work(self, items: list[Item], seconds: float) -> None:
        self.writer.work(items)
        self.writer.flush(now=self.clock.now(), seconds=seconds)

    async def _store(self) -> None:
        """Everything that is ready, in order; after a failure not again for a while."""
        ready = self.writer.ready
        if not ready or self.clock.monotonic() < self._retry_at:
            return
        try:
            while ready:
                await self.store.put(*ready[0])
                self.counts.stored_bytes(len(ready[0][1]))
                del ready[0]
            self.problem = ""
        except DovetailError as error:
            self._failed(error.message)

    def _failed(self, why: str) -> None:
        if not self.problem:
            log.warning("records cannot be stored", reason=why)
        self.problem = f"decisions are not recorded: {why}"
        self.counts.failures(1)
        self._retry_at = self.clock.monotonic() + RETRY_SECONDS
        ready = self.writer.ready
        if sum(sizes(ready)) > MOST_WAITING_BYTES:
            self.counts.lost(len(ready))
            log.warning("records are lost", reason=why, documents=len(ready))
            ready.clear()
            self.writer.end_series()

    async def _retain(self) -> None:
        base = folder(self.writer.cluster, role_of(self.writer.shadow))
        try:
            stored = await self.store.listing(base)
            self.counts.size(sum(one.size for one in stored))
            for name in surplus(stored, self.retention, now=self.clock.now()):
                await self.store.delete(name)
        except DovetailError as error:
            log.warning("old records cannot be deleted", reason=error.message)
