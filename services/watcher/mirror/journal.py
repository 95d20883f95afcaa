"""From informer events to the mirror and the streams, in batches.

One task at a time writes: changes queue up while a transaction is under way and go out together, so a burst of 400 pods
costs a few round trips. After each transaction its messages are published with its generation: a reader of a message
finds the change in the mirror. What is open when the whole picture was written is announced in small parts between the
changes, so that ten thousand objects do not hold up one.

What may go wrong: Redis loses everything (the writer raises MirrorLost): the whole picture, kept here as bytes, is
written again and every open matter is announced again. Redis is away: changes and announcements wait, bounded by one
entry each per object. A stream is full: its announcements are dropped, and a receiver finds its work by its own resync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from services.watcher.conversion import Kind
from services.watcher.messages import Record, messages_for
from services.watcher.mirror.members import Member, Members, machine_member, node_member
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause, run_until
from shared.domain.records import MACHINES, NODES, RECORD_TYPES, decode_record
from shared.errors import InvalidObject, TransientError
from shared.kube.informer import Deleted, Key, Known, key_of, known_of
from shared.log import get_logger
from shared.redis.bus import Bus
from shared.redis.messages import OutgoingMessage, PodUnschedulable, send_all
from shared.redis.mirror import Change, MirrorLost, MirrorWriter, Position
from shared.redis.mirror.writer import BODY_LIMIT_BYTES
from shared.runtime.tracing import OFF, Tracer

log = get_logger(__name__)

LARGEST_BATCH = 500
LARGEST_CHUNK = 200
"""Announcements of the first picture between two batches of changes."""
GATHER_SECONDS = 0.01
"""How long a burst may gather before it is written."""
RETRY_SECONDS = 1.0
IDLE_SECONDS = 5.0
"""A turn that finds nothing to write counts as progress this often."""
HEARTBEAT_SECONDS = 2.0
RENEW_SECONDS = 10.0
"""Any reader can ask for a rewrite of the mirror: it is done at most this often."""
Place = tuple[str, str]
"""Mirror kind and key."""


@dataclass
class Pending:
    """One object's change from ``old``, the record that was announced last, to ``new``; None: there is no object."""

    kind: str
    key: str
    old: bytes | None
    new: bytes | None
    version: str
    generation: int = 0
    """Of the mirror with ``new`` in it; 0: not written yet."""
    since: int = 0
    """Number of the oldest change in it that is not written."""
    seen_at: float = 0.0
    """When its oldest event that is not announced came, in seconds since the epoch; 0: with the first picture."""

    @property
    def place(self) -> Place:
        return self.kind, self.key

    def messages(self) -> Iterable[OutgoingMessage]:
        """What has to be announced once the change is written."""
        cause = f"{self.kind}/{self.key}@{self.version or self.generation}"
        for stream, message in messages_for(
            self._read(self.old),
            self._read(self.new),
            generation=self.generation,
            version=self.version,
        ):
            yield OutgoingMessage(stream, message, cause)

    def _read(self, body: bytes | None) -> Record:
        return None if body is None else decode_record(self.kind, body)


class Checkpoint(NamedTuple):
    """Positions of the watches when so many changes were noted."""

    changes: int
    positions: Mapping[str, Position]


@dataclass
class Journal:
    """Holds every record as bytes and writes them to the mirror."""

    writer: MirrorWriter
    bus: Bus
    clock: Clock
    tracer: Tracer = OFF
    positions: Callable[[], Mapping[str, Position]] = dict
    """How far the watches are, by plural; everything up to there was noted."""
    records: dict[str, dict[str, bytes]] = field(
        default_factory=lambda: {name: {} for name in RECORD_TYPES}
    )
    generation: int = 0
    begun: bool = False
    last_progress: float = -inf
    """Monotonic time of the last turn that Redis answered, or that found nothing to write; -inf: never."""
    _held: dict[str, dict[Key, Known]] = field(default_factory=dict)
    """Kubernetes kind -> which objects were noted in which version, unusable ones too."""
    _machines: Members = field(default_factory=lambda: Members(MACHINES, machine_member))
    _nodes: Members = field(default_factory=lambda: Members(NODES, node_member))
    _queue: dict[Place, Pending] = field(default_factory=dict)
    _unannounced: dict[Place, Pending] = field(default_factory=dict)
    """In the mirror, but not announced yet."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _changes: int = 0
    """How many changes were noted."""
    _writing: int | None = None
    """Number of the oldest change that is on its way to Redis."""
    _checkpoint: Checkpoint | None = None
    _reached: Mapping[str, Position] = field(default_factory=dict)
    """The positions up to which everything is written."""
    _sent_soundness: dict[str, bool] = field(default_factory=dict)
    _heartbeat_at: float = -inf
    _renewed_at: float = -inf
    _renew: bool = False
    """A reader found entries that this watcher did not write."""

    def note(self, kind: Kind, raw: Mapping[str, Any], record: Record) -> None:
        """Remember the present state of one object; ``record`` None: it is unusable.

        Raises InvalidObject for a record that the mirror does not take; nothing is remembered then.
        """
        key, known = key_of(raw), known_of(raw)
        self._change(kind.name, kind.key_of(key), _encode(record), known.version)
        self._held.setdefault(kind.identity, {})[key] = known

    def forget(self, kind: Kind, gone: Deleted) -> None:
        """An object is gone."""
        self._change(kind.name, kind.key_of(gone.key), None, gone.version)
        self._held.setdefault(kind.identity, {}).pop(gone.key, None)

    def held(self, kind: Kind) -> Mapping[Key, Known]:
        """Which objects of one Kubernetes kind were noted, and in which version."""
        return self._held.get(kind.identity, {})

    def _change(self, kind: str, key: str, body: bytes | None, version: str) -> None:
        stored = self.records[kind]
        before = stored.get(key)
        if before == body:
            return
        if body is None:
            stored.pop(key, None)
        else:
            stored[key] = body
        self._changes += 1
        waiting = self._queue.get((kind, key))
        old = waiting.old if waiting else before
        since = waiting.since if waiting else self._changes
        seen_at = waiting.seen_at if waiting else self.clock.now()
        self._queue[kind, key] = Pending(
            kind, key, old, body, version, since=since, seen_at=seen_at
        )
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

    @property
    def unannounced(self) -> int:
        """Objects in the mirror that are not announced yet."""
        return len(self._unannounced)

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
                log.warning("mirror or messages cannot be written", error=error.message)
                await pause(stop, RETRY_SECONDS)

    async def _step(self, stop: asyncio.Event) -> None:
        if not self.begun:
            await self._begin()
        if self._renew:
            await self._write_anew()
        if not self._queue and not self._unannounced:
            self._wake.clear()
            await run_until(stop, pause(self._wake, IDLE_SECONDS))
            await asyncio.sleep(GATHER_SECONDS)
        await self._announce(await self._write())
        await self._announce(list(self._unannounced.values())[:LARGEST_CHUNK])

    async def _begin(self) -> None:
        """Write the whole picture; what is open is announced by the next steps."""
        # Cleared before the write: a change that is noted while it is under way must queue again.
        self._queue.clear()
        self._unannounced.clear()
        snapshot = await self._write_anew()
        self.begun = True
        everything = [
            Pending(name, key, None, body, "", self.generation)
            for name, bodies in snapshot.items()
            for key, body in bodies.items()
        ]
        self._unannounced = {pending.place: pending for pending in everything}
        log.info("mirror written", generation=self.generation, objects=len(everything))
        await self.heartbeat()

    async def _write_anew(self) -> dict[str, dict[str, bytes]]:
        """The whole picture in place of whatever is there. What waits to be written is written once more after it."""
        self._renew = False
        snapshot = {kind: dict(records) for kind, records in self.records.items()}
        self.generation = await self.writer.begin(snapshot)
        return snapshot

    async def _write(self) -> list[Pending]:
        """Bring the oldest changes into the mirror; they are to be announced."""
        batch = [self._queue.pop(place) for place in list(self._queue)[:LARGEST_BATCH]]
        if not batch:
            return []
        self._writing = min(one.since for one in batch)
        try:
            self.generation = await self.writer.apply(
                [Change(kind=one.kind, key=one.key, body=one.new) for one in batch]
            )
        except BaseException:
            self._put_back(batch)
            raise
        finally:
            self._writing = None
        # Announced only from here on: a reader of a message must find its generation in the mirror.
        for one in batch:
            one.generation = self.generation
            earlier = self._unannounced.pop(one.place, None)
            if earlier is not None:
                one.old = earlier.old  # The state in between was never announced.
            self._unannounced[one.place] = one
        return batch

    async def _announce(self, batch: list[Pending]) -> None:
        """Raises TransientError when it is unknown what arrived: all stays to be announced, and repeats are dropped."""
        messages = [self._traced(one, pending) for pending in batch for one in pending.messages()]
        await send_all(self.bus, messages, self.clock)
        # A newer change of the object may have taken the place meanwhile; that one is still to be announced.
        for pending in batch:
            if self._unannounced.get(pending.place) is pending:
                del self._unannounced[pending.place]

    def _traced(self, outgoing: OutgoingMessage, pending: Pending) -> OutgoingMessage:
        """A pod that becomes unschedulable begins a trace."""
        message = outgoing.message
        if not self.tracer.enabled or not isinstance(message, PodUnschedulable):
            return outgoing
        now = self.clock.now()
        trace = self.tracer.record(
            "pod unschedulable",
            parent="",
            start=pending.seen_at or now,
            end=now,
            pod=message.pod,
            uid=message.uid,
            generation=message.generation,
        )
        return outgoing._replace(trace=trace)

    def _put_back(self, batch: list[Pending]) -> None:
        """What was not written is pending again, unless something newer is."""
        for pending in batch:
            newer = self._queue.get(pending.place)
            if newer is None:
                self._queue[pending.place] = pending
            else:
                newer.old, newer.since = pending.old, min(newer.since, pending.since)
                newer.seen_at = pending.seen_at
        self._wake.set()

    async def tick(self) -> None:
        """Send a heartbeat when it is due, and at once when the soundness of a watch changes."""
        sound = {plural: position.sound for plural, position in self.positions().items()}
        if (
            sound != self._sent_soundness
            or self.clock.monotonic() - self._heartbeat_at >= HEARTBEAT_SECONDS
        ):
            await self.heartbeat()

    async def heartbeat(self) -> None:
        """Write that the mirror is alive and how far it is; finds out whether it is lost, or written by others."""
        if not self.begun:
            return
        written = self._positions_written()
        try:
            asked = not await self.writer.heartbeat(written)
        except MirrorLost:
            self.begun = False
            self._wake.set()
            return
        now = self._heartbeat_at = self.clock.monotonic()
        self._sent_soundness = {plural: position.sound for plural, position in written.items()}
        if asked and now - self._renewed_at >= RENEW_SECONDS:
            log.warning("a reader found entries that are not ours, writing the mirror anew")
            self._renewed_at, self._renew = now, True
            self._wake.set()

    def _positions_written(self) -> dict[str, Position]:
        """Versions up to which all is written, with how the watches are now."""
        present = self.positions()
        if self._checkpoint is None:
            self._checkpoint = Checkpoint(self._changes, present)
        # A position says "everything up to here is written": it counts once no older change waits any more.
        if self._oldest() > self._checkpoint.changes:
            self._reached, self._checkpoint = self._checkpoint.positions, None
        return {
            plural: structs.replace(
                position, version=self._reached[plural].version if plural in self._reached else ""
            )
            for plural, position in present.items()
        }

    def _oldest(self) -> float:
        """Number of the oldest change that is not written; inf: all are."""
        oldest = min((pending.since for pending in self._queue.values()), default=inf)
        return oldest if self._writing is None else min(oldest, self._writing)


def _encode(record: Record) -> bytes | None:
    body = msgspec.json.encode(record) if record is not None else None
    if body is not None and len(body) > BODY_LIMIT_BYTES:
        text = f"its record has {len(body)} bytes, and the mirror takes {BODY_LIMIT_BYTES}"
        raise InvalidObject(text, field="object")
    return body
