"""Commands on hashes, sets and lists."""

from __future__ import annotations

from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import OK, CommandError, Reply, number
from simulation.servers.redis.values.collections import Hash, List, Set


@command("hset", -4, needs_memory=True)
def hset(db: Keyspace, words: list[bytes]) -> Reply:
    """HSET key field value …: how many fields are new."""
    if len(words) % 2 == 0:
        raise CommandError("ERR wrong number of arguments for 'hset' command")
    key = words[0]
    found = db.find(key, Hash)
    if found is None:
        found = Hash()
        db.put(key, found)
    before = len(found)
    for field, value in zip(words[1::2], words[2::2], strict=True):
        _note_field(db, found, field)
        found[field] = value
    return len(found) - before


def _note_field(db: Keyspace, container: Hash, field: bytes) -> None:
    old = container.get(field)
    if old is None:
        db.undo(lambda: container.pop(field, None))
    else:
        db.undo(lambda: container.__setitem__(field, old))


@command("hincrby", 4, needs_memory=True)
def hincrby(db: Keyspace, words: list[bytes]) -> Reply:
    """HINCRBY key field amount: the new value; a field that is not there counts as 0."""
    key, field = words[:2]
    amount = number(words[2])
    found = db.find(key, Hash)
    old = found.get(field) if found is not None else None
    value = amount + (0 if old is None else number(old, "ERR hash value is not an integer"))
    if not -(2**63) <= value < 2**63:
        raise CommandError("ERR increment or decrement would overflow")
    if found is None:
        found = Hash()
        db.put(key, found)
    _note_field(db, found, field)
    found[field] = str(value).encode()
    return value


@command("hdel", -3, writes=True)
def hdel(db: Keyspace, words: list[bytes]) -> Reply:
    """HDEL key field …"""
    found = db.find(words[0], Hash)
    if found is None:
        return 0
    before = len(found)
    for field in words[1:]:
        if field in found:
            _note_field(db, found, field)
            del found[field]
    after = len(found)
    if not found:
        db.delete(words[0])
    return before - after


@command("hget", 3)
def hget(db: Keyspace, words: list[bytes]) -> Reply:
    """HGET key field."""
    return (db.find(words[0], Hash) or Hash()).get(words[1])


@command("hlen", 2)
def hlen(db: Keyspace, words: list[bytes]) -> Reply:
    """HLEN key."""
    return len(db.find(words[0], Hash) or ())


@command("hgetall", 2)
def hgetall(db: Keyspace, words: list[bytes]) -> Reply:
    """HGETALL key."""
    found = db.find(words[0], Hash) or Hash()
    return [part for pair in found.items() for part in pair]


@command("sadd", -3, needs_memory=True)
def sadd(db: Keyspace, words: list[bytes]) -> Reply:
    """SADD key member …: how many are new."""
    old = db.find(words[0], Set)
    new = Set.fromkeys((*(old or ()), *words[1:]))
    if old is None or len(new) > len(old):
        db.put(words[0], Set(new), keep_expiry=True)
    return len(new) - len(old or ())


@command("smembers", 2)
def smembers(db: Keyspace, words: list[bytes]) -> Reply:
    """SMEMBERS key."""
    return list(db.find(words[0], Set) or ())


@command("lpush", -3, needs_memory=True)
def lpush(db: Keyspace, words: list[bytes]) -> Reply:
    """LPUSH key value …: the last value becomes the first of the list."""
    new = List([*reversed(words[1:]), *(db.find(words[0], List) or ())])
    db.put(words[0], new, keep_expiry=True)
    return len(new)


@command("lrange", 4)
def lrange(db: Keyspace, words: list[bytes]) -> Reply:
    """LRANGE key first last."""
    span = slice_of(words[1], words[2])
    return list(db.find(words[0], List) or ())[span]


@command("ltrim", 4, writes=True)
def ltrim(db: Keyspace, words: list[bytes]) -> Reply:
    """LTRIM key first last."""
    span = slice_of(words[1], words[2])
    found = db.find(words[0], List)
    if found is not None:
        _replace(db, words[0], List(found[span]))
    return OK


@command("lrem", 4, writes=True)
def lrem(db: Keyspace, words: list[bytes]) -> Reply:
    """LREM key count value: from the end for a negative count, all for 0."""
    count = number(words[1])
    found = db.find(words[0], List)
    if found is None:
        return 0
    places = [index for index, value in enumerate(found) if value == words[2]]
    if count:
        places = places[:count] if count > 0 else places[count:]
    if places:
        removed = set(places)
        kept = List(value for index, value in enumerate(found) if index not in removed)
        _replace(db, words[0], kept)
    return len(places)


def _replace(db: Keyspace, key: bytes, value: List) -> None:
    """An empty list does not exist."""
    if value:
        db.put(key, value, keep_expiry=True)
    else:
        db.delete(key)


def slice_of(first: bytes, last: bytes) -> slice:
    """The Python slice of an inclusive range of Redis, in which negative indices count from the end."""
    start, end = number(first), number(last)
    return slice(start, None if end == -1 else end + 1)
