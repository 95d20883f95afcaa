"""Commands on sorted sets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from simulation.servers.redis.commands.collections import slice_of
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import (
    SYNTAX_ERROR,
    CommandError,
    Reply,
    double,
    double_text,
    number,
)
from simulation.servers.redis.values.sorted_set import SortedSet

_FLAGS = (b"NX", b"XX", b"GT", b"LT", b"CH")
_Pairs = list[tuple[float, bytes]]


@command("zadd", -4, needs_memory=True)
def zadd(db: Keyspace, words: list[bytes]) -> Reply:
    """ZADD key [NX | XX] [GT | LT] [CH] score member …"""
    key, rest = words[0], words[1:]
    flags: set[bytes] = set()
    while rest and rest[0].upper() in _FLAGS:
        flags.add(rest.pop(0).upper())
    if not rest or len(rest) % 2:
        raise CommandError(SYNTAX_ERROR)
    _check_flags(flags)
    scores = [double(word) for word in rest[::2]]
    found = db.find(key, SortedSet)
    if found is None:
        if b"XX" in flags:
            return 0
        found = SortedSet()
        db.put(key, found)
    added = changed = 0
    for score, member in zip(scores, rest[1::2], strict=True):
        old = found.scores.get(member)
        if _may_set(flags, old, score):
            added += old is None
            changed += old is not None
            found.put(db, member, score)
    return added + changed if b"CH" in flags else added


def _check_flags(flags: set[bytes]) -> None:
    if flags >= {b"NX", b"XX"}:
        raise CommandError("ERR XX and NX options at the same time are not compatible")
    if flags >= {b"GT", b"LT"} or (b"NX" in flags and flags & {b"GT", b"LT"}):
        text = "ERR GT, LT, and/or NX options at the same time are not compatible"
        raise CommandError(text)


def _may_set(flags: set[bytes], old: float | None, score: float) -> bool:
    if old is None:
        return b"XX" not in flags
    if b"NX" in flags or score == old:
        return False
    return not ((b"GT" in flags and score < old) or (b"LT" in flags and score > old))


@command("zcard", 2)
def zcard(db: Keyspace, words: list[bytes]) -> Reply:
    """ZCARD key."""
    return len(_ordered(db, words[0]))


@command("zscore", 3)
def zscore(db: Keyspace, words: list[bytes]) -> Reply:
    """ZSCORE key member."""
    score = (db.find(words[0], SortedSet) or SortedSet()).scores.get(words[1])
    return None if score is None else double_text(score)


@command("zrem", -3, writes=True)
def zrem(db: Keyspace, words: list[bytes]) -> Reply:
    """ZREM key member …"""
    return _remove(db, words[0], words[1:])


@command("zrange", -4)
def zrange(db: Keyspace, words: list[bytes]) -> Reply:
    """ZRANGE key first last [WITHSCORES]: by rank only."""
    options = [word.upper() for word in words[3:]]
    if any(option != b"WITHSCORES" for option in options):
        raise CommandError(SYNTAX_ERROR)
    span = slice_of(words[1], words[2])
    return _shown(_ordered(db, words[0])[span], with_scores=bool(options))


@command("zrangebyscore", -4)
def zrangebyscore(db: Keyspace, words: list[bytes]) -> Reply:
    """ZRANGEBYSCORE key minimum maximum [WITHSCORES] [LIMIT offset count]."""
    offset, count, with_scores, rest = 0, -1, False, [*words[3:]]
    while rest:
        option = rest.pop(0).upper()
        if option == b"WITHSCORES":
            with_scores = True
        elif option == b"LIMIT" and len(rest) >= 2:
            offset, count = number(rest.pop(0)), number(rest.pop(0))
        else:
            raise CommandError(SYNTAX_ERROR)
    found = _between(db, *words[:3])
    chosen = [] if offset < 0 else found[offset:]
    return _shown(chosen if count < 0 else chosen[:count], with_scores=with_scores)


@command("zremrangebyrank", 4, writes=True)
def zremrangebyrank(db: Keyspace, words: list[bytes]) -> Reply:
    """ZREMRANGEBYRANK key first last."""
    span = slice_of(words[1], words[2])
    return _remove(db, words[0], [member for _, member in _ordered(db, words[0])[span]])


@command("zremrangebyscore", 4, writes=True)
def zremrangebyscore(db: Keyspace, words: list[bytes]) -> Reply:
    """ZREMRANGEBYSCORE key minimum maximum."""
    return _remove(db, words[0], [member for _, member in _between(db, *words)])


def _ordered(db: Keyspace, key: bytes) -> _Pairs:
    found = db.find(key, SortedSet)
    return found.ordered if found else []


def _between(db: Keyspace, key: bytes, minimum: bytes, maximum: bytes) -> _Pairs:
    low, low_open = _bound(minimum)
    high, high_open = _bound(maximum)
    ordered = _ordered(db, key)
    first = (bisect_right if low_open else bisect_left)(ordered, low, key=_score)
    end = (bisect_left if high_open else bisect_right)(ordered, high, key=_score)
    return ordered[first:end]


def _score(pair: tuple[float, bytes]) -> float:
    return pair[0]


def _bound(word: bytes) -> tuple[float, bool]:
    """The score and whether it is excluded. Raises CommandError."""
    is_open = word[:1] == b"("
    return double(word[is_open:], "ERR min or max is not a float"), is_open


def _shown(pairs: _Pairs, *, with_scores: bool) -> list[bytes]:
    if not with_scores:
        return [member for _, member in pairs]
    return [part for score, member in pairs for part in (member, double_text(score))]


def _remove(db: Keyspace, key: bytes, members: Iterable[bytes]) -> int:
    found = db.find(key, SortedSet)
    if found is None:
        return 0
    removed = sum([found.remove(db, member) for member in members])
    if not found.scores:
        db.delete(key)
    return removed
