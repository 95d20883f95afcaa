"""Commands on strings."""

from __future__ import annotations

from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import OK, SYNTAX_ERROR, CommandError, Reply, number

_UNITS = {b"EX": 1000, b"PX": 1}


@command("get", 2)
def get(db: Keyspace, words: list[bytes]) -> Reply:
    """GET key."""
    return db.find(words[0], bytes)


@command("mget", -2)
def mget(db: Keyspace, words: list[bytes]) -> Reply:
    """MGET key …: null for a key of another type too."""
    values = [db.any(key) for key in words]
    return [value if type(value) is bytes else None for value in values]


@command("set", -3, needs_memory=True)
def set_value(db: Keyspace, words: list[bytes]) -> Reply:
    """SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | KEEPTTL]."""
    key, value = words[:2]
    flags, expiry = _options(words[2:])
    if db.is_redis_6 and flags >= {b"NX", b"GET"}:
        raise CommandError(SYNTAX_ERROR)
    lifetime = None if expiry is None else _lifetime(db, *expiry)
    old = db.find(key, bytes) if b"GET" in flags else None
    if (b"NX" in flags and key in db) or (b"XX" in flags and key not in db):
        return old
    db.put(key, value, keep_expiry=b"KEEPTTL" in flags)
    if lifetime is not None:
        db.expire(key, db.now + lifetime)
    return old if b"GET" in flags else OK


def _options(words: list[bytes]) -> tuple[set[bytes], tuple[bytes, bytes] | None]:
    """The flags, and the unit and number of the expiry. Raises CommandError."""
    flags: set[bytes] = set()
    expiry: tuple[bytes, bytes] | None = None
    at = 0
    while at < len(words):
        word = words[at].upper()
        if word in _UNITS and at + 1 < len(words) and expiry is None and b"KEEPTTL" not in flags:
            at += 1
            expiry = (word, words[at])
        elif word in (b"NX", b"XX", b"GET") or (word == b"KEEPTTL" and expiry is None):
            flags.add(word)
        else:
            raise CommandError(SYNTAX_ERROR)
        at += 1
    if flags >= {b"NX", b"XX"}:
        raise CommandError(SYNTAX_ERROR)
    return flags, expiry


def _lifetime(db: Keyspace, unit: bytes, word: bytes) -> int:
    """Milliseconds. Raises CommandError."""
    lifetime = number(word) * _UNITS[unit]
    if not 0 < lifetime < 2**63 - db.now:
        raise CommandError("ERR invalid expire time in 'set' command")
    return lifetime
