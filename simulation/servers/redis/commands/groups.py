"""Commands on consumer groups, without reading: ``reading``."""

from __future__ import annotations

from simulation.servers.redis.commands.stream_words import parse_end, parse_id, parse_start
from simulation.servers.redis.keyspace import Keyspace
from simulation.servers.redis.registry import command
from simulation.servers.redis.resp import (
    NULL_ARRAY,
    OK,
    SYNTAX_ERROR,
    CommandError,
    Reply,
    number,
)
from simulation.servers.redis.values.group import Group
from simulation.servers.redis.values.stream import HIGHEST, LOWEST, Stream

_NO_KEY = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option "
    "to create an empty stream automatically."
)


@command("xgroup|create", -5, needs_memory=True)
def xgroup_create(db: Keyspace, words: list[bytes]) -> Reply:
    """XGROUP CREATE key group id | $ [MKSTREAM]."""
    key, name, start = words[:3]
    options = [word.upper() for word in words[3:]]
    if any(option != b"MKSTREAM" for option in options):
        raise CommandError(
            "ERR unknown subcommand or wrong number of arguments for 'CREATE'. Try XGROUP HELP."
        )
    stream = db.find(key, Stream)
    if stream is None and not options:
        raise CommandError(_NO_KEY)
    last = None if start == b"$" else parse_id(start, strict=False)
    if stream is None:
        stream = Stream()
        db.put(key, stream)
    if name in stream.groups:
        raise CommandError("BUSYGROUP Consumer Group name already exists")
    groups = stream.groups
    db.undo(lambda: groups.pop(name, None))
    groups[name] = Group(stream.last if last is None else last)
    return OK


@command("xgroup|delconsumer", 5, writes=True)
def xgroup_delconsumer(db: Keyspace, words: list[bytes]) -> Reply:
    """XGROUP DELCONSUMER key group consumer: how many entries were pending for it."""
    key, name, consumer = words
    stream = db.find(key, Stream)
    if stream is None:
        raise CommandError(_NO_KEY)
    return _named(stream, key, name).drop_consumer(db, consumer)


def _named(stream: Stream, key: bytes, name: bytes) -> Group:
    """For XGROUP and XINFO. Raises CommandError."""
    if name not in stream.groups:
        raise CommandError(b"NOGROUP No such consumer group '%b' for key name '%b'" % (name, key))
    return stream.groups[name]


@command("xack", -4, writes=True)
def xack(db: Keyspace, words: list[bytes]) -> Reply:
    """XACK key group id …: how many were pending."""
    stream = db.find(words[0], Stream)
    group = stream.groups.get(words[1]) if stream else None
    if group is None:
        return 0
    ids = [parse_id(word) for word in words[2:]]
    return sum([group.remove(db, one) for one in ids])


def with_group(db: Keyspace, key: bytes, name: bytes) -> tuple[Stream, Group]:
    """Raises CommandError."""
    stream = db.find(key, Stream)
    if stream is None or name not in stream.groups:
        raise CommandError(b"NOGROUP No such key '%b' or consumer group '%b'" % (key, name))
    return stream, stream.groups[name]


@command("xpending", -3)
def xpending(db: Keyspace, words: list[bytes]) -> Reply:
    """XPENDING key group [[IDLE milliseconds] start end count [consumer]]."""
    rest, idle = words[2:], 0
    if rest and not 3 <= len(rest) <= 6:
        raise CommandError(SYNTAX_ERROR)
    if rest and rest[0].upper() == b"IDLE":
        idle, rest = number(rest[1]), rest[2:]
        if len(rest) < 3:
            raise CommandError(SYNTAX_ERROR)
    if not rest:
        return _summary(with_group(db, *words[:2])[1])
    count = max(0, number(rest[2]))
    start, end = parse_start(rest[0]), parse_end(rest[1])
    group = with_group(db, *words[:2])[1]
    ids = group.pending_of(rest[3], start) if len(rest) > 3 else group.pending_from(start)
    found: list[Reply] = []
    for entry_id in ids:
        if entry_id > end or len(found) >= count:
            break
        one = group.pending[entry_id]
        if db.now - one.delivered >= idle:
            age = max(0, db.now - one.delivered)
            found.append([entry_id.text(), one.consumer, age, one.deliveries])
    return found


def _summary(group: Group) -> Reply:
    ids = list(group.pending_from(LOWEST))
    if not ids:
        return [0, None, None, NULL_ARRAY]
    counts = [
        [one.name, b"%d" % one.pending] for _, one in sorted(group.consumers.items()) if one.pending
    ]
    return [len(ids), ids[0].text(), ids[-1].text(), counts]


@command("xinfo|groups", 3)
def xinfo_groups(db: Keyspace, words: list[bytes]) -> Reply:
    """XINFO GROUPS key."""
    stream = _existing(db, words[0])
    return [_group_info(db, stream, *pair) for pair in sorted(stream.groups.items())]


def _group_info(db: Keyspace, stream: Stream, name: bytes, group: Group) -> Reply:
    return [
        *(b"name", name, b"consumers", len(group.consumers), b"pending", len(group.pending)),
        *(b"last-delivered-id", group.last.text()),
        *(() if db.is_redis_6 else (b"entries-read", group.read, b"lag", _lag(stream, group))),
    ]


def _lag(stream: Stream, group: Group) -> int | None:
    """Entries that the group has not read; None where Redis does not know it."""
    if not stream.added:
        return 0
    if group.read is not None and not stream.has_deleted_after(group.last):
        return stream.added - group.read
    read = stream.distance(group.last)
    return None if read is None else stream.added - read


@command("xinfo|consumers", 4)
def xinfo_consumers(db: Keyspace, words: list[bytes]) -> Reply:
    """XINFO CONSUMERS key group."""
    group = _named(_existing(db, words[0]), *words)
    return [
        [b"name", name, b"pending", one.pending, b"idle", max(0, db.now - one.seen)]
        for name, one in sorted(group.consumers.items())
    ]


@command("xinfo|stream", -3)
def xinfo_stream(db: Keyspace, words: list[bytes]) -> Reply:
    """XINFO STREAM key: without FULL."""
    stream = _existing(db, words[0])
    if len(words) > 1:
        raise CommandError(SYNTAX_ERROR)
    first = next(stream.range(LOWEST, HIGHEST), None)
    last = next(stream.reverse_range(HIGHEST, LOWEST), None)
    return [
        *(b"length", stream.length, b"radix-tree-keys", stream.nodes, b"radix-tree-nodes", 1),
        *(b"last-generated-id", stream.last.text()),
        *(() if db.is_redis_6 else _history(stream)),
        *(b"groups", len(stream.groups)),
        *(b"first-entry", first and [first[0].text(), first[1]]),
        *(b"last-entry", last and [last[0].text(), last[1]]),
    ]


def _history(stream: Stream) -> tuple[Reply, ...]:
    deleted, first = stream.deleted.text(), stream.first.text()
    added = (b"max-deleted-entry-id", deleted, b"entries-added", stream.added)
    return (*added, b"recorded-first-entry-id", first)


def _existing(db: Keyspace, key: bytes) -> Stream:
    stream = db.find(key, Stream)
    if stream is None:
        raise CommandError("ERR no such key")
    return stream
