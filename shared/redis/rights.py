"""The permissions of each service in Redis: the one table that the ACL is made from.

Only the watcher may write the mirror, because the mirror decides which machines are launched and terminated. A
compromised service can only send the messages that it sends anyway, and receivers check those against the API server
before they act.

A right is a set of commands on a set of keys. Redis 7.0 separates rights (selectors, read-only keys). Redis 6.2 has
one list of commands and one list of keys per user: there a service may also write the keys that it may read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.redis import streams
from shared.redis.bus.connection import key_prefix

SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
AGENT = "interruption-imds"
"""The agent on each node of a cluster without a queue. Its password is on many nodes, so it has fewer rights."""
OPERATOR = "operator"
"""For people and the ``dovetail`` command: may read everything and replay dead letters."""
CONSOLE = "console"
"""Reads the mirror, the streams and dead letters; may change nothing but request a new mirror."""
SHADOW = "shadow"
"""A scheduler that acts on nothing: reads what the scheduler reads, and writes nothing."""
USERS = (*SERVICES, AGENT, CONSOLE, SHADOW, OPERATOR)
"""The users with a password."""
PROBE = "probe"
"""For the kubelet's probes: may send PING only, without a password."""
_CONNECTION = ("ping", "select", "time")
_OBSERVERS = ("info",)
"""For who looks after the server: version, memory, persistence. It has no keys, and shows no passwords."""
_SCRIPTS = ("eval", "evalsha", "script|exists", "script|load", "multi", "exec", "discard")
"""A script has the rights of its user: Redis checks each of its commands."""


@dataclass(frozen=True)
class Right:
    """``commands`` on ``keys``, which are relative to the cluster's prefix; a key that ends in ``*`` is a prefix."""

    keys: tuple[str, ...]
    commands: tuple[str, ...]
    read_only: bool = False


def rights_of(user: str) -> tuple[Right, ...]:
    """All rights of a user with a password. Raises KeyError for any other name."""
    if user == OPERATOR:
        return _OPERATOR
    if user == CONSOLE:
        return _CONSOLE
    if user == SHADOW:
        return _SHADOW
    if user == AGENT:
        targets = (streams.INTERRUPTIONS, streams.TERMINATIONS)
        return (
            *_ALL_SERVICES,
            *(r for s in targets for r in _publish(s)),
            _UNAVAILABLE,
            _SHORTAGES,
        )
    published = [r for s, users in streams.PUBLISHERS.items() if user in users for r in _publish(s)]
    consumed = [
        r for s, users in streams.GROUPS.items() if user in users for r in _consume(s, user)
    ]
    return (*_ALL_SERVICES, *published, *consumed, *_OWN[user])


def _publish(stream: str) -> tuple[Right, ...]:
    """The rights that ``shared.redis.bus.publisher`` needs."""
    return (
        Right((stream,), ("xadd", "xlen", "xtrim", "exists", "xinfo|groups", "xpending")),
        Right((f"dedupe:{stream}:*",), ("exists", "set")),
    )


def _consume(stream: str, group: str) -> tuple[Right, ...]:
    """The rights that ``group``, ``delay``, ``trim`` and ``dead_letters`` of ``shared.redis.bus`` need."""
    taken = ("xreadgroup", "xpending", "xautoclaim", "xclaim", "xack", "xadd", "xtrim", "exists")
    groups = ("xgroup|create", "xgroup|delconsumer", "xinfo|groups", "xinfo|consumers")
    return (
        Right((stream,), (*taken, *groups)),
        Right((f"heartbeat:{stream}:{group}:*",), ("set", "mget", "del", "exists")),
        Right((f"delay:{stream}",), ("zadd", "zcard", "zrange", "zrangebyscore", "zrem")),
        *_add_dead_letters(stream),
    )


def _add_dead_letters(stream: str) -> tuple[Right, ...]:
    """The rights to add and count dead letters; only the operator may replay and drop them."""
    once = ("zscore", "zadd", "zremrangebyrank", "pexpire")
    return (
        Right((f"{stream}:dead",), ("xadd", "xlen")),
        Right((f"{stream}:dead:names",), once),
    )


_ALL_SERVICES = (Right(("event:*",), ("set", "exists")),)
_MIRROR_WRITTEN = (
    Right(
        ("mirror:*",),
        (
            *("get", "set", "exists", "del", "unlink", "rename", "persist", "expire"),
            *("hset", "hdel", "hlen", "smembers", "sadd"),
        ),
    ),
    # The writer deletes the stream only when another client replaced it with a key of another type.
    Right((streams.CLUSTER,), ("xadd", "del")),
)
_MIRROR_READ = (
    Right(("mirror:*",), ("exists", "mget", "smembers", "hgetall"), read_only=True),
    Right((streams.CLUSTER,), ("exists", "xinfo|stream", "xread"), read_only=True),
    # A request to write the mirror anew, which the watcher grants at most every half minute.
    Right(("mirror:heal",), ("set",)),
)
# Version 0.1.0, which works beside this one while it is replaced, sends ZRANGE, and its scheduler drops what expired.
_OLD_READ = ("zrange", "zremrangebyscore")
_UNAVAILABLE_READ = Right(("unavailable",), ("zrangebyscore", *_OLD_READ))
_SCORES = ("zadd", "zremrangebyrank", "zremrangebyscore", "zrangebyscore", "zrange")
_UNAVAILABLE = Right(("unavailable",), _SCORES)
_SHORTAGES_READ = Right(("shortages:*",), ("hgetall", "get"), read_only=True)
_SHORTAGES = Right(("shortages:*",), ("hgetall", "hincrby", "hlen", "expire", "get"))
_BACKOFF = Right(("launch-backoff:*",), ("get", "set", "del"))
_OUTCOMES = Right(("registrations:*",), ("lrem", "lpush", "ltrim", "expire", "lrange", "del"))
_OWN: Mapping[str, tuple[Right, ...]] = {
    "watcher": (
        *_MIRROR_WRITTEN,
        Right(("registrations:*",), ("lrange", "del")),
        # The watcher trims the entries that all groups have acknowledged, on every stream.
        Right(tuple(streams.GROUPS), ("exists", "xinfo|groups", "xpending", "xtrim")),
        Right((), ("info",)),  # how much memory Redis uses: it has no key
    ),
    "scheduler": (
        *_MIRROR_READ,
        _UNAVAILABLE_READ,
        _SHORTAGES,
        Right(("shortages:shared",), ("set",)),  # what other clusters found
        Right(("catalogue", "catalogue:*"), ("get",), read_only=True),
        Right(("reservations:*",), ("mget",), read_only=True),
        Right(("disrupted",), _SCORES),
        Right(("approvals", "approvals:answers"), ("zrange", "zadd", "zrem")),
    ),
    "launcher": (
        _UNAVAILABLE,
        _SHORTAGES,
        _BACKOFF,
        _OUTCOMES,
        Right(("catalogue", "catalogue:*", "reservations:*"), ("get", "set", "mget")),
        Right(("shifted-zones", "launch-template:*"), ("get", "set")),
        Right(("memory", "memory:seen"), ("zadd", "zrem", "zrange")),
    ),
    "terminator": (
        _BACKOFF,
        _OUTCOMES,
        Right(("shifted-zones",), ("get",), read_only=True),
        Right((streams.CLUSTER,), ("xread",), read_only=True),  # what changed, and no contents
    ),
    "interruption": (
        *_MIRROR_READ,
        _UNAVAILABLE,
        _SHORTAGES,
        *_add_dead_letters(streams.INTERRUPTIONS),
    ),
}
_OPERATOR = (
    Right(
        ("*",),
        (
            *("exists", "type", "ttl", "get", "mget", "hget", "hgetall", "hlen", "smembers"),
            *("lrange", "zrange", "zscore", "zcard", "xlen", "xrange", "xrevrange", "xpending"),
            *("xread", "xinfo|stream", "xinfo|groups", "xinfo|consumers"),
        ),
        read_only=True,
    ),
    *(Right((stream, f"{stream}:dead"), ("xadd", "xdel")) for stream in streams.PUBLISHERS),
)

_SHADOW = (
    _SHORTAGES_READ,
    *(right for right in _MIRROR_READ if right.read_only),
    Right(("unavailable", "disrupted"), ("zrangebyscore",), read_only=True),
    Right(("approvals", "approvals:answers"), ("zrange",), read_only=True),
    Right(("catalogue", "catalogue:*"), ("get",), read_only=True),
    Right(("reservations:*",), ("mget",), read_only=True),
    Right(
        tuple(stream for stream, users in streams.GROUPS.items() if "scheduler" in users),
        ("xread",),
        read_only=True,
    ),
)
_DEPTHS = ("xlen", "exists", "xinfo|groups", "xpending", "xrange")
_CONSOLE = (
    *_MIRROR_READ,
    Right(("event:*",), ("exists",), read_only=True),
    *(Right((stream,), _DEPTHS, read_only=True) for stream in streams.PUBLISHERS),
    *(Right((f"delay:{stream}",), ("zcard",), read_only=True) for stream in streams.PUBLISHERS),
    *(
        Right((f"{stream}:dead",), ("xlen", "xrevrange"), read_only=True)
        for stream in streams.PUBLISHERS
    ),
)


def acl_file(cluster: str, passwords: Mapping[str, str], *, selectors: bool = True) -> str:
    """The text for ``--aclfile``: the users in ``passwords`` (as digests of their passwords) and the probe.

    ``selectors``: for Redis 7.0 and newer. Raises ConfigurationError for a cluster name that cannot be a key prefix.
    """
    lines = [
        # An unauthenticated connection has no rights at all, not even PING.
        "default off resetpass resetkeys resetchannels -@all",
        f"{PROBE} on nopass resetkeys resetchannels -@all +ping",
        *user_rules(cluster, passwords, selectors=selectors),
    ]
    return "".join(f"user {line}\n" for line in lines)


def user_rules(
    cluster: str, passwords: Mapping[str, str], *, selectors: bool = True
) -> Iterator[str]:
    """One rule per user in ``passwords``: the text after ``user`` in Redis' ACL file. Raises as ``acl_file``."""
    prefix = key_prefix(cluster)
    for user, password in passwords.items():
        digest = hashlib.sha256(password.encode()).hexdigest()
        words = _selector_rules(prefix, user) if selectors else _flat_rules(prefix, user)
        yield f"{user} on #{digest} resetchannels -@all {' '.join(words)}"


def _selector_rules(prefix: str, user: str) -> Iterator[str]:
    """Redis 7.0: scripts may declare every key that the user may write; each right is a selector of its own."""
    rights = rights_of(user)
    yield from _allowed((*_CONNECTION, *_SCRIPTS, *_keyless(user)))
    written = dict.fromkeys(key for right in rights if not right.read_only for key in right.keys)
    yield from (f"~{prefix}{key}" for key in written)
    for right in rights:
        access = "%R~" if right.read_only else "~"
        keys = (f"{access}{prefix}{key}" for key in right.keys)
        yield f"({' '.join((*_allowed(right.commands), *keys))})"


def _flat_rules(prefix: str, user: str) -> Iterator[str]:
    """Redis 6.2: every command of the user on every key of the user."""
    rights = rights_of(user)
    commands = dict.fromkeys(word for right in rights for word in right.commands)
    yield from _allowed((*_CONNECTION, *_SCRIPTS, *_keyless(user), *commands))
    yield from (f"~{prefix}{key}" for key in dict.fromkeys(k for r in rights for k in r.keys))


def _keyless(user: str) -> tuple[str, ...]:
    return _OBSERVERS if user in (OPERATOR, CONSOLE) else ()


def _allowed(commands: Sequence[str]) -> Iterator[str]:
    return (f"+{command}" for command in commands)
