"""Commands on keys of any type, and on the connection."""

from __future__ import annotations

from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import OK, CommandError, Reply, Status, number
from simulation.servers.redis.values.collections import Hash, List, Set
from simulation.servers.redis.values.sorted_set import SortedSet
from simulation.servers.redis.values.stream import Stream

_TYPES = {
    bytes: b"string",
    Hash: b"hash",
    List: b"list",
    Set: b"set",
    SortedSet: b"zset",
    Stream: b"stream",
}


@command("ping", -1)
def ping(db: Keyspace, words: list[bytes]) -> Reply:
    """PING [message]."""
    if len(words) > 1:
        raise CommandError("ERR wrong number of arguments for 'ping' command")
    return words[0] if words else Status(b"PONG")


@command("echo", 2)
def echo(db: Keyspace, words: list[bytes]) -> Reply:
    """ECHO message."""
    return words[0]


@command("time", 1)
def time(db: Keyspace, words: list[bytes]) -> Reply:
    """TIME."""
    return [b"%d" % part for part in db.microseconds()]


@command("select", 2)
def select(db: Keyspace, words: list[bytes]) -> Reply:
    """SELECT number: there is one database."""
    if number(words[0]) != 0:
        raise CommandError("ERR DB index is out of range")
    return OK


@command("auth", -2)
def auth(db: Keyspace, words: list[bytes]) -> Reply:
    """AUTH [user] password: everybody may do everything."""
    return OK


@command("info", -1)
def info(db: Keyspace, words: list[bytes]) -> Reply:
    """INFO: what identifies the server, and memory that never changes."""
    version = ".".join(map(str, db.version)).encode()
    memory = b"# Memory\r\nused_memory:1048576\r\nmaxmemory:0\r\n"
    server = b"# Server\r\nredis_version:%b\r\nredis_mode:standalone\r\nprocess_id:1\r\n" % version
    return server + memory


@command("dbsize", 1)
def dbsize(db: Keyspace, words: list[bytes]) -> Reply:
    """DBSIZE."""
    return len(db)


@command("exists", -2)
def exists(db: Keyspace, words: list[bytes]) -> Reply:
    """EXISTS key …: a key that is named twice counts twice."""
    return sum(key in db for key in words)


@command("del", -2, writes=True)
@command("unlink", -2, writes=True)
def delete(db: Keyspace, words: list[bytes]) -> Reply:
    """DEL key …"""
    return sum([db.delete(key) for key in words])


@command("flushall", -1, writes=True)
@command("flushdb", -1, writes=True)
def flush(db: Keyspace, words: list[bytes]) -> Reply:
    """FLUSHALL."""
    db.clear()
    return OK


@command("rename", 3, writes=True)
def rename(db: Keyspace, words: list[bytes]) -> Reply:
    """RENAME key new-key."""
    key, new = words
    value, at = db.any(key), db.expires_at(key)
    if value is None:
        raise CommandError("ERR no such key")
    if key != new:
        db.delete(new)
        db.put(new, value)
        if at is not None:
            db.expire(new, at)
        db.delete(key)
        db.ready.append(new)
    return OK


@command("type", 2)
def type_of(db: Keyspace, words: list[bytes]) -> Reply:
    """TYPE key."""
    value = db.any(words[0])
    return Status(b"none" if value is None else _TYPES[type(value)])


@command("expire", -3, writes=True)
def expire(db: Keyspace, words: list[bytes]) -> Reply:
    """EXPIRE key seconds."""
    return _expire(db, words, 1000, "expire")


@command("pexpire", -3, writes=True)
def pexpire(db: Keyspace, words: list[bytes]) -> Reply:
    """PEXPIRE key milliseconds."""
    return _expire(db, words, 1, "pexpire")


def _expire(db: Keyspace, words: list[bytes], unit: int, name: str) -> Reply:
    if len(words) > 2:
        raise CommandError(b"ERR Unsupported option " + words[2])
    milliseconds = number(words[1]) * unit
    if abs(milliseconds) >= 2**63 - db.now:
        raise CommandError(f"ERR invalid expire time in '{name}' command")
    if words[0] not in db:
        return 0
    db.expire(words[0], db.now + milliseconds)
    return 1


@command("persist", 2, writes=True)
def persist(db: Keyspace, words: list[bytes]) -> Reply:
    """PERSIST key."""
    if db.expires_at(words[0]) is None:
        return 0
    db.expire(words[0], None)
    return 1


@command("pttl", 2)
def pttl(db: Keyspace, words: list[bytes]) -> Reply:
    """PTTL key: -1 for a key that never expires, -2 for no key."""
    if words[0] not in db:
        return -2
    at = db.expires_at(words[0])
    return -1 if at is None else at - db.now


@command("ttl", 2)
def ttl(db: Keyspace, words: list[bytes]) -> Reply:
    """TTL key, rounded to seconds."""
    left = int(pttl(db, words))
    return left if left < 0 else (left + 500) // 1000
