"""XCLAIM and XAUTOCLAIM.

A pending entry that was deleted leaves the pending list and is not in the reply of Redis 7.0. Redis 6.2 claims it and
replies with null.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from simulation.servers.redis.commands.groups import with_group
from simulation.servers.redis.commands.reading import entry_of
from simulation.servers.redis.commands.stream_words import parse_id, parse_start
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import SYNTAX_ERROR, CommandError, Reply, number
from simulation.servers.redis.values.group import Group, Pending
from simulation.servers.redis.values.stream import LOWEST, Fields, Id


@dataclass(slots=True)
class _Claim:
    """What XCLAIM does to each entry. Times in milliseconds."""

    consumer: bytes
    minimum_idle: int
    delivered: int
    deliveries: int | None = None
    force: bool = False
    only_ids: bool = False
    taken: list[Reply] = field(default_factory=list)

    def take(self, db: Keyspace, group: Group, entry_id: Id, fields: Fields | None) -> None:
        """Give one entry to the consumer if it is idle for long enough."""
        old = group.pending.get(entry_id)
        if old is not None and self.minimum_idle and db.now - old.delivered < self.minimum_idle:
            return
        group.consumer(db, self.consumer)
        count = self.deliveries
        if count is None:
            before = old.deliveries if old else 1
            count = before if self.only_ids else before + 1
        group.put(db, entry_id, Pending(self.consumer, self.delivered, count))
        if self.only_ids:
            self.taken.append(entry_id.text())
        else:
            self.taken.append(None if fields is None else [entry_id.text(), fields])


@command("xclaim", -6, writes=True)
def xclaim(db: Keyspace, words: list[bytes]) -> Reply:
    """XCLAIM key group consumer min-idle-time id … [IDLE ms] [TIME ms] [RETRYCOUNT count] [FORCE] [JUSTID]."""
    stream, group = with_group(db, *words[:2])
    error = "ERR Invalid min-idle-time argument for XCLAIM"
    claim = _Claim(words[2], max(0, number(words[3], error)), db.now)
    ids, options = _split(words[4:])
    _read_options(claim, db, options)
    for entry_id in ids:
        fields = entry_of(stream, entry_id)
        if fields is None and not db.is_redis_6:
            group.remove(db, entry_id)
        elif entry_id in group.pending or (claim.force and fields is not None):
            claim.take(db, group, entry_id, fields)
    return claim.taken


def _split(words: list[bytes]) -> tuple[list[Id], list[bytes]]:
    """The ids in front, and the options after them."""
    ids: list[Id] = []
    for word in words:
        try:
            ids.append(parse_id(word))
        except CommandError:
            break
    return ids, words[len(ids) :]


def _read_options(claim: _Claim, db: Keyspace, words: list[bytes]) -> None:
    rest: Iterable[bytes] = iter(words)
    left = len(words)
    for word in rest:
        option, left = word.upper(), left - 1
        if option == b"FORCE":
            claim.force = True
        elif option == b"JUSTID":
            claim.only_ids = True
        elif option in (b"IDLE", b"TIME", b"RETRYCOUNT") and left:
            left -= 1
            _read_number(claim, db, option, next(iter(rest)))
        else:
            raise CommandError(b"ERR Unrecognized XCLAIM option '%b'" % word)
    # Redis sets a time in the future to now.
    claim.delivered = min(claim.delivered, db.now) if claim.delivered >= 0 else db.now


def _read_number(claim: _Claim, db: Keyspace, option: bytes, word: bytes) -> None:
    value = number(word, f"ERR Invalid {option.decode()} option argument for XCLAIM")
    if option == b"RETRYCOUNT":
        if value < 0:
            raise CommandError("ERR Invalid RETRYCOUNT option argument for XCLAIM")
        claim.deliveries = value
    else:
        claim.delivered = db.now - value if option == b"IDLE" else value


@command("xautoclaim", -6, writes=True)
def xautoclaim(db: Keyspace, words: list[bytes]) -> Reply:
    """XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]."""
    error = "ERR Invalid min-idle-time argument for XAUTOCLAIM"
    claim = _Claim(words[2], max(0, number(words[3], error)), db.now)
    start = parse_start(words[4])
    count, claim.only_ids = _autoclaim_options(words[5:])
    stream, group = with_group(db, *words[:2])
    # Redis examines ten times as many entries as it may return.
    attempts, deleted, cursor = 10 * count, list[Reply](), LOWEST
    for entry_id in group.pending_from(start):
        if not attempts or len(claim.taken) + len(deleted) >= count:
            cursor = entry_id
            break
        attempts -= 1
        fields = entry_of(stream, entry_id)
        if fields is None and not db.is_redis_6:
            group.remove(db, entry_id)
            deleted.append(entry_id.text())
        else:
            claim.take(db, group, entry_id, fields)
    return [cursor.text(), claim.taken, *([] if db.is_redis_6 else [deleted])]


def _autoclaim_options(words: list[bytes]) -> tuple[int, bool]:
    """COUNT and JUSTID. Raises CommandError."""
    count, only_ids, rest = 100, False, [*words]
    while rest:
        option = rest.pop(0).upper()
        if option == b"COUNT" and rest:
            error = "ERR COUNT must be > 0"
            count = number(rest.pop(0), error)
            if count < 1:
                raise CommandError(error)
        elif option == b"JUSTID":
            only_ids = True
        else:
            raise CommandError(SYNTAX_ERROR)
    return count, only_ids
