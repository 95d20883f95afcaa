"""Commands on the entries of streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from simulation.servers.redis.commands.stream_words import (
    parse_end,
    parse_id,
    parse_start,
)
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import (
    NULL_ARRAY,
    SYNTAX_ERROR,
    CommandError,
    Reply,
    number,
)
from simulation.servers.redis.values.stream import LIMIT, LOWEST, Fields, Id, Stream

_TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"


@dataclass(slots=True)
class _Trim:
    length: int | None = None
    lowest: Id | None = None
    approximately: bool = False

    def apply(self, db: Keyspace, stream: Stream) -> int:
        if self.length is not None:
            return stream.trim_to_length(db, self.length, approximately=self.approximately)
        if self.lowest is not None:
            return stream.trim_below(db, self.lowest, approximately=self.approximately)
        return 0


@command("xadd", -5, needs_memory=True)
def xadd(db: Keyspace, words: list[bytes]) -> Reply:
    """XADD key [NOMKSTREAM] [MAXLEN | MINID [= | ~] limit] id field value …"""
    key, make, trim, at = words[0], True, _Trim(), 1
    while at < len(words):
        word = words[at].upper()
        if word == b"NOMKSTREAM":
            make, at = False, at + 1
        elif word in (b"MAXLEN", b"MINID") and at + 1 < len(words):
            trim, at = _parse_trim(words, at)
        else:
            break
    if at >= len(words):
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    wanted = _wanted_id(words[at], partial=not db.is_redis_6)
    fields = words[at + 1 :]
    if not fields or len(fields) % 2:
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    if wanted == (LOWEST.milliseconds, LOWEST.sequence):
        raise CommandError("ERR The ID specified in XADD must be greater than 0-0")
    stream = db.find(key, Stream)
    if stream is None:
        if not make:
            return None
        stream = Stream()
        db.put(key, stream)
    entry_id = _next_id(stream, wanted, db.now)
    stream.append(db, entry_id, fields)
    trim.apply(db, stream)
    db.ready.append(key)
    return entry_id.text()


def _parse_trim(words: list[bytes], at: int) -> tuple[_Trim, int]:
    """The limit that begins at ``at`` and the place of the next word. Raises CommandError."""
    kind, trim = words[at].upper(), _Trim()
    at += 1
    if words[at] in (b"~", b"=") and at + 1 < len(words):
        trim.approximately = words[at] == b"~"
        at += 1
    if kind == b"MAXLEN":
        trim.length = number(words[at])
        if trim.length < 0:
            raise CommandError("ERR The MAXLEN argument must be >= 0.")
    else:
        trim.lowest = parse_id(words[at])
    return trim, at + 1


def _wanted_id(word: bytes, *, partial: bool) -> tuple[int | None, int | None]:
    """Milliseconds and sequence; None: the server chooses. ``partial``: ``ms-*`` is allowed."""
    if word == b"*":
        return None, None
    if partial and word.endswith(b"-*") and len(word) > 2:
        return parse_id(word[:-2]).milliseconds, None
    return parse_id(word)


def _next_id(stream: Stream, wanted: tuple[int | None, int | None], now: int) -> Id:
    """Raises CommandError for an id that is not above the last one."""
    milliseconds, sequence = wanted
    if milliseconds is None:
        return Id(now, 0) if now > stream.last.milliseconds else stream.last.after()
    if sequence is None:
        if milliseconds < stream.last.milliseconds:
            raise CommandError(_TOO_SMALL)
        if milliseconds > stream.last.milliseconds:
            return Id(milliseconds, 0)
        if stream.last.sequence == LIMIT:
            raise CommandError(_TOO_SMALL)
        return stream.last.after()
    if (milliseconds, sequence) <= stream.last:
        raise CommandError(_TOO_SMALL)
    return Id(milliseconds, sequence)


@command("xlen", 2)
def xlen(db: Keyspace, words: list[bytes]) -> Reply:
    """XLEN key."""
    found = db.find(words[0], Stream)
    return found.length if found else 0


@command("xtrim", -4, writes=True)
def xtrim(db: Keyspace, words: list[bytes]) -> Reply:
    """XTRIM key MAXLEN | MINID [= | ~] limit."""
    if words[1].upper() not in (b"MAXLEN", b"MINID"):
        raise CommandError(SYNTAX_ERROR)
    trim, end = _parse_trim(words, 1)
    if end != len(words):
        raise CommandError(SYNTAX_ERROR)
    stream = db.find(words[0], Stream)
    return trim.apply(db, stream) if stream else 0


@command("xdel", -3, writes=True)
def xdel(db: Keyspace, words: list[bytes]) -> Reply:
    """XDEL key id …"""
    stream = db.find(words[0], Stream)
    if stream is None:
        return 0
    ids = [parse_id(word) for word in words[1:]]
    return sum([stream.remove(db, one) for one in ids])


@command("xrange", -4)
def xrange(db: Keyspace, words: list[bytes]) -> Reply:
    """XRANGE key start end [COUNT count]."""
    start, end = parse_start(words[1]), parse_end(words[2])
    return _ranged(db, words, start, end, reverse=False)


@command("xrevrange", -4)
def xrevrange(db: Keyspace, words: list[bytes]) -> Reply:
    """XREVRANGE key end start [COUNT count]."""
    start, end = parse_start(words[2]), parse_end(words[1])
    return _ranged(db, words, start, end, reverse=True)


def _ranged(db: Keyspace, words: list[bytes], start: Id, end: Id, *, reverse: bool) -> Reply:
    count = _count(words[3:])
    stream = db.find(words[0], Stream)
    if stream is None:
        return []
    if count == 0:
        return NULL_ARRAY
    entries = stream.reverse_range(end, start) if reverse else stream.range(start, end)
    return shown(islice(entries, count))


def _count(words: list[bytes]) -> int | None:
    """The number of COUNT; None without one. Raises CommandError."""
    count: int | None = None
    for at in range(0, len(words), 2):
        if words[at].upper() != b"COUNT" or at + 1 == len(words):
            raise CommandError(SYNTAX_ERROR)
        count = max(0, number(words[at + 1]))
    return count


def shown(entries: Iterable[tuple[Id, Fields]]) -> list[Reply]:
    """Entries as replies hold them."""
    return [[entry_id.text(), fields] for entry_id, fields in entries]
