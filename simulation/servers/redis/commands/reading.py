"""XREAD and XREADGROUP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from simulation.servers.redis.commands.stream_words import parse_id
from simulation.servers.redis.commands.streams import shown
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import (
    NULL_ARRAY,
    SYNTAX_ERROR,
    CommandError,
    Reply,
    number,
)
from simulation.servers.redis.values.group import Group, Pending
from simulation.servers.redis.values.stream import HIGHEST, LOWEST, Fields, Id, Stream

NEW = HIGHEST
"""What ``>`` stands for: entries that no consumer of the group has received."""


@dataclass(slots=True)
class Read:
    """One XREAD or XREADGROUP. ``block``: milliseconds to wait for an entry, 0 for ever, None not at all."""

    group: bytes | None = None
    consumer: bytes = b""
    count: int | None = None
    block: int | None = None
    acknowledge: bool = False
    after: list[tuple[bytes, Id]] = field(default_factory=list)
    """(key, last id that the client has) per stream."""

    def run(self, db: Keyspace, *, woken: bool = False) -> Reply:
        """The entries by stream; NULL_ARRAY for none. Raises CommandError when the group or the type is wrong.

        ``woken``: a client that was blocked. Redis wakes it for an entry that was deleted at once, with an empty list.
        """
        found: list[Reply] = []
        for key, last in self.after:
            stream = db.find(key, Stream)
            if self.group is not None:
                entries = self._of_group(db, key, _group(db, key, self.group), last, woken)
            else:
                entries = self._of_stream(stream, last, woken)
            if entries is not None:
                found.append([key, entries])
        return found or NULL_ARRAY

    def _of_stream(self, stream: Stream | None, last: Id, woken: bool) -> Reply | None:
        if stream is None or _newest(stream, woken) <= last:
            return None
        return shown(islice(stream.range(last.after(), HIGHEST), self.count))

    def _of_group(
        self, db: Keyspace, key: bytes, group: Group, last: Id, woken: bool
    ) -> Reply | None:
        stream = db.find(key, Stream)
        if stream is None:
            return None
        if last != NEW:
            return list(islice(self._history(db, stream, group, last), self.count))
        if _newest(stream, woken) <= group.last:
            return None
        group.consumer(db, self.consumer)
        entries = list(islice(stream.range(group.last.after(), HIGHEST), self.count))
        for entry_id, _ in entries:
            _advance(db, stream, group, entry_id)
            if not self.acknowledge:
                group.put(db, entry_id, Pending(self.consumer, db.now, 1))
        return shown(entries)

    def _history(self, db: Keyspace, stream: Stream, group: Group, last: Id) -> Iterator[Reply]:
        """The consumer's own pending entries; null in the place of a deleted one's fields."""
        group.consumer(db, self.consumer)
        for entry_id in list(group.pending_of(self.consumer, last.after())):
            fields = entry_of(stream, entry_id)
            if fields is not None:
                deliveries = group.pending[entry_id].deliveries + 1
                group.put(db, entry_id, Pending(self.consumer, db.now, deliveries))
            yield [entry_id.text(), NULL_ARRAY if fields is None else fields]


@dataclass(slots=True)
class Blocked:
    """In the place of a reply: nothing to read yet."""

    read: Read


def _newest(stream: Stream, woken: bool) -> Id:
    return stream.last if woken else stream.newest()


def _advance(db: Keyspace, stream: Stream, group: Group, entry_id: Id) -> None:
    if group.read is not None and not stream.has_deleted_after(entry_id):
        read: int | None = group.read + 1
    else:
        read = stream.distance(entry_id) if stream.added else group.read
    group.advance(db, entry_id, read)


def entry_of(stream: Stream, entry_id: Id) -> Fields | None:
    """The fields of an entry; None for one that was deleted."""
    return next((fields for _, fields in stream.range(entry_id, entry_id)), None)


def _group(db: Keyspace, key: bytes, name: bytes) -> Group:
    stream = db.find(key, Stream)
    group = stream.groups.get(name) if stream else None
    if group is None:
        raise CommandError(
            b"NOGROUP No such key '%b' or consumer group '%b' in XREADGROUP with GROUP option"
            % (key, name)
        )
    return group


@command("xread", -4)
def xread(db: Keyspace, words: list[bytes]) -> Reply:
    """XREAD [COUNT count] [BLOCK milliseconds] STREAMS key … id …"""
    return _read(db, _parse(db, words, "xread"))


@command("xreadgroup", -7, writes=True)
def xreadgroup(db: Keyspace, words: list[bytes]) -> Reply:
    """XREADGROUP GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key … id …"""
    return _read(db, _parse(db, words, "xreadgroup"))


def _read(db: Keyspace, read: Read) -> Reply:
    reply = read.run(db)
    return Blocked(read) if reply is NULL_ARRAY and read.block is not None else reply


def _parse(db: Keyspace, words: list[bytes], name: str) -> Read:
    read, at = Read(), 0
    while at < len(words) and words[at].upper() != b"STREAMS":
        at = _option(read, words, at, name)
    rest = words[at + 1 :]
    if at >= len(words) or not rest:
        raise CommandError(SYNTAX_ERROR)
    if len(rest) % 2:
        raise CommandError(
            "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
        )
    if name == "xreadgroup" and read.group is None:
        raise CommandError("ERR Missing GROUP option for XREADGROUP")
    half = len(rest) // 2
    read.after = [
        (key, _last(db, read, key, word))
        for key, word in zip(rest[:half], rest[half:], strict=True)
    ]
    return read


def _option(read: Read, words: list[bytes], at: int, name: str) -> int:
    """Read the option at ``at``; returns the place of the next word. Raises CommandError."""
    option, left = words[at].upper(), len(words) - at - 1
    if option == b"BLOCK" and left >= 1:
        read.block = _block(words[at + 1])
        return at + 2
    if option == b"COUNT" and left >= 1:
        count = number(words[at + 1])
        read.count = count if count > 0 else None
        return at + 2
    if option == b"GROUP" and left >= 2:
        if name == "xread":
            raise CommandError(
                "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
            )
        read.group, read.consumer = words[at + 1], words[at + 2]
        return at + 3
    if option == b"NOACK":
        if name == "xread":
            raise CommandError(
                "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
            )
        read.acknowledge = True
        return at + 1
    raise CommandError(SYNTAX_ERROR)


def _block(word: bytes) -> int:
    block = number(word, "ERR timeout is not an integer or out of range")
    if block < 0:
        raise CommandError("ERR timeout is negative")
    return block


def _last(db: Keyspace, read: Read, key: bytes, word: bytes) -> Id:
    """The id after which a stream is read. Raises CommandError."""
    stream = db.find(key, Stream)
    if read.group is not None:
        _group(db, key, read.group)
    if word == b"$":
        if read.group is not None:
            raise CommandError(
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this "
                "consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return "
                "an empty result set."
            )
        return stream.last if stream else LOWEST
    if word == b">":
        if read.group is None:
            raise CommandError(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
            )
        return NEW
    return parse_id(word)
