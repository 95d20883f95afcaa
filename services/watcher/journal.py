"""From informer events to the mirror and the streams, in batches.

One task at a time writes: changes queue up while a transaction is under way and go out together, so a burst of
400 pods costs a few round trips. After each transaction the messages that follow from it are published with its
generation: whoever reads a message finds the change in the mirror.

What may go wrong: Redis loses everything (the writer raises MirrorLost): the whole picture, which is kept here as
bytes, is written anew and every open matter is announced again. Redis is away: the changes wait, bounded by one
entry per object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.watcher.members import Member, Members, machine_member, node_member
from services.watcher.news import Record, news
from services.watcher.records import Kind
from shared.bus import Bus
from shared.clock import Clock
from shared.domain.records import MACHINES, NODES, RECORD_TYPES, decode_record
from shared.errors import TransientError
from shared.log import get_logger
from shared.messages import send
from shared.mirror import Change, MirrorLost, MirrorWriter
from shared.runtime import pause

log = get_logger(__name__)

LARGEST_BATCH = 500
GATHER_SECONDS = 0.01
"""How long a burst may gather before it is written."""
RETRY_SECONDS = 1.0


@dataclass
class Pending:
    """The latest state of one object that is not in the mirror yet. ``old`` is what the mirror has."""

    kind: str
    key: str
    old: Record
    new: Record
    version: str


@dataclass
class Journal:
    """The watcher's memory and its pen."""

    writer: MirrorWriter
    bus: Bus
    clock: Clock
    records: dict[str, dict[str, bytes]] = field(
        default_factory=lambda: {name: {} for name in RECORD_TYPES}
    )
    generation: int = 0
    begun: bool = False
    last_progress: float = 0.0
    """Monotonic time of the last turn that Redis answered, or that found nothing to write."""
    _machines: Members = field(default_factory=lambda: Members(MACHINES, machine_member))
    _nodes: Members = field(default_factory=lambda: Members(NODES, node_member))
    _queue: dict[tuple[str, str], Pending] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, kind: Kind, raw: Mapping[str, Any], record: Record) -> None:
        """Remember the present state of one object; ``record`` None: it is gone or unusable."""
        key = kind.key(raw)
        body = msgspec.json.encode(record) if record is not None else None
        stored = self.records[kind.name]
        before = stored.get(key)
        if before == body:
            return
        if body is None:
            stored.pop(key, None)
        else:
            stored[key] = body
        waiting = self._queue.get((kind.name, key))
        old = waiting.old if waiting else None
        if waiting is None and before is not None:
            old = decode_record(kind.name, before)
        version = str(raw["metadata"].get("resourceVersion") or "")
        self._queue[kind.name, key] = Pending(kind.name, key, old, record, version)
        self._wake.set()

    def machines(self) -> list[Member]:
        """All machines as they were last seen."""
        return self._machines.of(self.records[MACHINES])

    def nodes(self) -> list[Member]:
        """All nodes as they were last seen."""
        return self._nodes.of(self.records[NODES])

    @property
    def backlog(self) -> int:
        """Objects whose latest state is not in the mirror yet."""
        return len(self._queue)

    async def run(self, stop: asyncio.Event) -> None:
        """Write batches until ``stop``. Call only when the first lists are complete."""
        while not stop.is_set():
            try:
                await self._step(stop)
                self.last_progress = self.clock.monotonic()
            except MirrorLost:
                log.warning("mirror lost, writing it anew")
                self.begun = False
            except TransientError as error:
                log.warning("mirror cannot be written", error=error.message)
                await pause(stop, RETRY_SECONDS)

    async def _step(self, stop: asyncio.Event) -> None:
        if not self.begun:
            await self._begin()
        if not self._queue:
            self._wake.clear()
            await _either(stop, self._wake)
            await asyncio.sleep(GATHER_SECONDS)
        batch = [self._queue.pop(key) for key in list(self._queue)[:LARGEST_BATCH]]
        if not batch:
            return
        try:
            self.generation = await self.writer.apply([self._change(p) for p in batch])
            await self._announce(batch)
        except BaseException:
            self._put_back(batch)
            raise

    async def _begin(self) -> None:
        """Write everything and announce what is open."""
        self._queue.clear()
        snapshot = {kind: dict(records) for kind, records in self.records.items()}
        self.generation = await self.writer.begin(snapshot)
        self.begun = True
        everything = [
            Pending(name, key, None, decode_record(name, body), "")
            for name, bodies in snapshot.items()
            for key, body in bodies.items()
        ]
        await self._announce(everything)
        log.info("mirror written", generation=self.generation, objects=len(everything))

    async def _announce(self, batch: list[Pending]) -> None:
        for p in batch:
            for stream, message in news(
                p.old, p.new, generation=self.generation, version=p.version
            ):
                cause = f"{p.kind}/{p.key}@{p.version or self.generation}"
                # A full stream must not hold up the mirror: who misses this bell finds its work on its own list.
                await send(self.bus, stream, message, cause=cause, clock=self.clock)

    def _change(self, pending: Pending) -> Change:
        return Change(
            kind=pending.kind, key=pending.key, body=self.records[pending.kind].get(pending.key)
        )

    def _put_back(self, batch: list[Pending]) -> None:
        """What was not announced is pending again, unless something newer is."""
        for p in batch:
            newer = self._queue.get((p.kind, p.key))
            if newer is None:
                self._queue[p.kind, p.key] = p
            else:
                newer.old = p.old
        self._wake.set()

    async def heartbeat(self) -> None:
        """Say that the mirror is alive; notices when Redis lost it."""
        if not self.begun:
            return
        try:
            await self.writer.heartbeat()
        except MirrorLost:
            self.begun = False
            self._wake.set()


async def _either(stop: asyncio.Event, wake: asyncio.Event) -> None:
    waits = {asyncio.ensure_future(event.wait()) for event in (stop, wake)}
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=5.0)
    finally:
        for wait in waits:
            wait.cancel()
