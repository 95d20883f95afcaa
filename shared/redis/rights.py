"""What each service may do in Redis: the one table that the ACL is made from.

Whoever may write the mirror decides what is bought and taken away, so only the watcher may. A service that is taken
over can send the messages that it sends anyway, which receivers check against the API server before they act.

A right is a set of commands on a set of keys. Redis 7.0 keeps rights apart (selectors, read only keys). Redis 6.2 has
one list of commands and one of keys per user: there, what a service may read it may also write.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shared.redis import streams
from shared.redis.bus.connection import key_prefix

SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
AGENT = "interruption-imds"
"""The agent on each node of a cluster without a queue: a secret on many nodes, so it may do less."""
OPERATOR = "operator"
"""For people and the ``dovetail`` command: looks at everything, puts dead letters back."""
USERS = (*SERVICES, AGENT, OPERATOR)
"""Who has a password."""
PROBE = "probe"
"""For the kubelet: may say PING, and needs no password."""
_CONNECTION = ("ping", "select", "time")
_SCRIPTS = ("eval", "evalsha", "script|exists", "script|load", "multi", "exec", "discard")
"""A script may do what its user may do: its commands are checked one by one."""


@dataclass(frozen=True)
class Right:
    """``commands`` on ``keys``, which stand below the cluster's prefix; ``*`` ends a beginning of keys."""

    keys: tuple[str, ...]
    commands: tuple[str, ...]
    read_only: bool = False


def rights_of(user: str) -> tuple[Right, ...]:
    """All rights of a service, the agent or the operator. Raises KeyError for others."""
    if user == OPERATOR:
        return _OPERATOR
    if user == AGENT:
        told = (streams.INTERRUPTIONS, streams.TERMINATIONS)
        return (*_EVERYBODY, *(r for s in told for r in _publish(s)), _UNAVAILABLE)
    published = [r for s, who in streams.PUBLISHERS.items() if user in who for r in _publish(s)]
    consumed = [r for s, who in streams.GROUPS.items() if user in who for r in _consume(s, user)]
    return (*_EVERYBODY, *published, *consumed, *_OWN[user])


def _publish(stream: str) -> tuple[Right, ...]:
    """``shared.redis.bus.publisher``."""
    return (
        Right((stream,), ("xadd", "xlen", "xtrim", "exists", "xinfo|groups", "xpending")),
        Right((f"dedupe:{stream}:*",), ("exists", "set")),
    )


def _consume(stream: str, group: str) -> tuple[Right, ...]:
    """``shared.redis.bus.group``, ``delay``, ``trim`` and ``dead_letters``."""
    taken = ("xreadgroup", "xpending", "xautoclaim", "xclaim", "xack", "xadd", "xtrim", "exists")
    groups = ("xgroup|create", "xgroup|delconsumer", "xinfo|groups", "xinfo|consumers")
    return (
        Right((stream,), (*taken, *groups)),
        Right((f"heartbeat:{stream}:{group}:*",), ("set", "mget", "del", "exists")),
        Right((f"delay:{stream}",), ("zadd", "zcard", "zrangebyscore", "zrem")),
        *_bury(stream, group),
    )


def _bury(stream: str, group: str) -> tuple[Right, ...]:
    """``shared.redis.bus.dead_letters``, but for putting them back."""
    once = ("zscore", "zadd", "zremrangebyrank", "pexpire")
    return (
        Right((f"{stream}:dead",), ("xadd",)),
        Right((f"{stream}:dead:names",), once),
    )


_EVERYBODY = (Right(("event:*",), ("set", "exists")),)
_MIRROR_WRITTEN = (
    Right(
        ("mirror:*",),
        (
            *("get", "set", "exists", "del", "unlink", "rename", "persist", "expire"),
            *("hset", "hdel", "hlen", "smembers", "sadd"),
        ),
    ),
    # Deleted only when somebody else put something of another kind in its place.
    Right((streams.CLUSTER,), ("xadd", "del")),
)
_MIRROR_READ = (
    Right(("mirror:*",), ("exists", "mget", "smembers", "hgetall"), read_only=True),
    Right((streams.CLUSTER,), ("exists", "xinfo|stream", "xread"), read_only=True),
    # Asks the watcher to write it anew, which it does at most every half minute.
    Right(("mirror:heal",), ("set",)),
)
_UNAVAILABLE_READ = Right(("unavailable",), ("zrange", "zremrangebyscore"))
_UNAVAILABLE = Right(("unavailable",), ("zadd", "zremrangebyrank", "zrange", "zremrangebyscore"))
_BACKOFF = Right(("launch-backoff:*",), ("get", "set", "del"))
_OUTCOMES = Right(("registrations:*",), ("lrem", "lpush", "ltrim", "expire", "lrange", "del"))
_OWN: Mapping[str, tuple[Right, ...]] = {
    "watcher": (
        *_MIRROR_WRITTEN,
        Right(("registrations:*",), ("lrange", "del")),
        # It trims what all groups are done with, on every stream.
        Right(tuple(streams.GROUPS), ("exists", "xinfo|groups", "xpending", "xtrim")),
    ),
    "scheduler": (
        *_MIRROR_READ,
        _UNAVAILABLE_READ,
        Right(("catalogue", "catalogue:*"), ("get",), read_only=True),
        Right(("reservations:*",), ("mget",), read_only=True),
        Right(("disrupted",), ("zadd", "zremrangebyrank", "zremrangebyscore", "zrange")),
    ),
    "launcher": (
        _UNAVAILABLE,
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
    ),
    "interruption": (
        *_MIRROR_READ,
        _UNAVAILABLE,
        *_bury(streams.INTERRUPTIONS, "interruption"),
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


def acl_file(cluster: str, passwords: Mapping[str, str], *, selectors: bool = True) -> str:
    """The text for ``--aclfile``: the users in ``passwords``, of which it has digests only, and the probe's.

    ``selectors``: for Redis 7.0 and newer. Raises ConfigurationError for a cluster that could not be a prefix.
    """
    lines = [
        # Not even PING, and no password: whoever does not say who he is can do nothing.
        "default off resetpass resetkeys resetchannels -@all",
        f"{PROBE} on nopass resetkeys resetchannels -@all +ping",
        *user_rules(cluster, passwords, selectors=selectors),
    ]
    return "".join(f"user {line}\n" for line in lines)


def user_rules(
    cluster: str, passwords: Mapping[str, str], *, selectors: bool = True
) -> Iterator[str]:
    """What follows ``user`` in Redis' configuration, for each user in ``passwords``. Raises as ``acl_file``."""
    prefix = _literal(key_prefix(cluster))
    for user, password in passwords.items():
        digest = hashlib.sha256(password.encode()).hexdigest()
        words = _apart(prefix, user) if selectors else _together(prefix, user)
        yield f"{user} on #{digest} resetchannels -@all {' '.join(words)}"


def _apart(prefix: str, user: str) -> Iterator[str]:
    """Redis 7.0: scripts may name all keys that the user may write; each command has its own."""
    rights = rights_of(user)
    yield from _allowed((*_CONNECTION, *_SCRIPTS))
    written = dict.fromkeys(key for right in rights if not right.read_only for key in right.keys)
    yield from (f"~{prefix}{key}" for key in written)
    for right in rights:
        mark = "%R~" if right.read_only else "~"
        keys = (f"{mark}{prefix}{key}" for key in right.keys)
        yield f"({' '.join((*_allowed(right.commands), *keys))})"


def _together(prefix: str, user: str) -> Iterator[str]:
    """Redis 6.2: every command on every key."""
    rights = rights_of(user)
    commands = dict.fromkeys(word for right in rights for word in right.commands)
    yield from _allowed((*_CONNECTION, *_SCRIPTS, *commands))
    yield from (f"~{prefix}{key}" for key in dict.fromkeys(k for r in rights for k in r.keys))


def _allowed(commands: Sequence[str]) -> Iterator[str]:
    return (f"+{command}" for command in commands)


def _literal(text: str) -> str:
    """As a pattern that means nothing but itself."""
    return re.sub(r"([*?\[\]\\^])", r"\\\1", text)
