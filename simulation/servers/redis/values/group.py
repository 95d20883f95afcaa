"""Consumer groups: what was delivered to whom and is not acknowledged."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulation.servers.redis.keyspace import Keyspace

if TYPE_CHECKING:
    from simulation.servers.redis.values.stream import Id


@dataclass(slots=True)
class Consumer:
    """``seen`` is the time of its last command that took entries or tried to, in milliseconds."""

    name: bytes
    seen: int
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Pending:
    """One delivery that is not acknowledged. Replaced, never changed."""

    consumer: bytes
    delivered: int
    """Milliseconds since the epoch."""
    deliveries: int


@dataclass(slots=True)
class Group:
    """``read``: how many entries were read, as far as Redis 7.0 knows it."""

    last: Id
    read: int | None = None
    consumers: dict[bytes, Consumer] = field(default_factory=dict)
    pending: dict[Id, Pending] = field(default_factory=dict)
    _ids: list[Id] = field(default_factory=list)
    """The keys of ``pending``, sorted."""

    def pending_from(self, entry_id: Id) -> Iterator[Id]:
        """The pending ids from this one on. The group may change meanwhile."""
        ids, at = self._ids, bisect_left(self._ids, entry_id)
        return iter(ids[at:])

    def pending_of(self, consumer: bytes, entry_id: Id) -> Iterator[Id]:
        """The pending ids of one consumer from this one on."""
        return (
            one for one in self.pending_from(entry_id) if self.pending[one].consumer == consumer
        )

    def put(self, db: Keyspace, entry_id: Id, pending: Pending) -> None:
        """Add or replace a pending entry; its consumer must exist."""
        old = self.pending.get(entry_id)
        db.undo(lambda: self._set(entry_id, old))
        self._set(entry_id, pending)

    def remove(self, db: Keyspace, entry_id: Id) -> bool:
        """Whether it was pending."""
        old = self.pending.get(entry_id)
        if old is None:
            return False
        db.undo(lambda: self._set(entry_id, old))
        self._set(entry_id, None)
        return True

    def _set(self, entry_id: Id, pending: Pending | None) -> None:
        old = self.pending.pop(entry_id, None)
        if old is not None:
            self.consumers[old.consumer].pending -= 1
        if pending is not None:
            self.pending[entry_id] = pending
            self.consumers[pending.consumer].pending += 1
        if old is None and pending is not None:
            insort(self._ids, entry_id)
        elif old is not None and pending is None:
            del self._ids[bisect_left(self._ids, entry_id)]

    def advance(self, db: Keyspace, last: Id, read: int | None) -> None:
        """Note what was delivered last."""
        before = (self.last, self.read)

        def restore() -> None:
            self.last, self.read = before

        db.undo(restore)
        self.last, self.read = last, read

    def consumer(self, db: Keyspace, name: bytes) -> Consumer:
        """The consumer, made if it is new, seen now."""
        found = self.consumers.get(name)
        if found is None:
            found = self.consumers[name] = Consumer(name, db.now)
            db.undo(lambda: self.consumers.pop(name, None))
        else:
            seen = found.seen
            db.undo(lambda: setattr(found, "seen", seen))
            found.seen = db.now
        return found

    def drop_consumer(self, db: Keyspace, name: bytes) -> int:
        """Remove a consumer and what is pending for it; returns how much that was."""
        found = self.consumers.get(name)
        if found is None:
            return 0
        ids = list(self.pending_of(name, self._ids[0])) if self._ids else []
        for one in ids:
            self.remove(db, one)
        db.undo(lambda: self.consumers.__setitem__(name, found))
        del self.consumers[name]
        return len(ids)
