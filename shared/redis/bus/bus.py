"""The bus of one cluster: publish, consume, read queue depths and dead letters.

One connection pool serves all commands; every consumer has one more connection for its blocking
read. A bus can be built while Redis is down: its loops connect when Redis answers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from shared.concurrency.clock import Clock
from shared.redis.bus.attempt import Attempts
from shared.redis.bus.connection import call, connect, key_prefix, pairs
from shared.redis.bus.consumer import Consumer, ConsumerSettings
from shared.redis.bus.dead_letters import DeadLetters
from shared.redis.bus.delay import DelaySet
from shared.redis.bus.envelope import Handler
from shared.redis.bus.group import ConsumerGroup
from shared.redis.bus.publisher import STREAM_LIMIT, Publisher
from shared.redis.bus.trim import safe_trim
from shared.redis.streams import GROUPS

MOST_COUNTED = 1000
"""Unread entries of one group: their number is for people only."""


@dataclass(frozen=True, slots=True)
class GroupDepth:
    """``lag`` is None on Redis 6.2 and whenever Redis does not know it; never decide by it (F11)."""

    pending: int
    lag: int | None
    consumers: int = 0
    last: bytes = b"0-0"
    """Id of the last entry that the group read."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Entries that a group has not read. ``more``: at least so many. ``oldest``: in seconds since the epoch."""

    count: int
    more: bool
    oldest: float | None


@dataclass(frozen=True, slots=True)
class StreamDepth:
    """``length`` counts entries of the stream, ``dead`` its dead letters."""

    length: int
    groups: dict[str, GroupDepth]
    dead: int


class Memory(NamedTuple):
    """In bytes; ``limit`` 0: none."""

    used: int
    limit: int


class Bus(Publisher):
    """All methods raise Unreachable, Unavailable or Unauthorized when Redis does not serve the command."""

    def __init__(
        self,
        redis_url: str,
        cluster: str,
        *,
        clock: Clock,
        random: random.Random,
        stream_limit: int = STREAM_LIMIT,
    ) -> None:
        """Raises ConfigurationError for an unreadable URL or cluster name."""
        self._url = redis_url
        self._clock = clock
        self._random = random
        prefix = key_prefix(cluster)
        super().__init__(connect(redis_url, prefix=prefix), prefix, stream_limit=stream_limit)

    async def start(self) -> None:
        """Check that Redis answers. A caller may ignore the error: all loops retry by themselves."""
        await call(self.redis, "ping", "PING")

    async def close(self) -> None:
        """Close the connections. Consumers must have returned."""
        await self.redis.aclose()

    def consumer(
        self,
        *,
        stream: str,
        group: str,
        name: str,
        handler: Handler,
        limit: int = 32,
        handler_timeout_seconds: float = 60,
        settings: ConsumerSettings | None = None,
    ) -> Consumer:
        """A consumer to ``run``. ``name`` must be new for every start of the process (F5)."""
        chosen = settings or ConsumerSettings()
        limits = replace(chosen.attempts, handler_timeout_seconds=handler_timeout_seconds)
        chosen = replace(chosen, limit=limit, attempts=limits)
        stream_key = f"{self.prefix}{stream}"
        reader = connect(self._url, prefix=self.prefix, connections=1)
        delay = DelaySet(self.redis, stream_key, f"{self.prefix}delay:{stream}")
        consumer_group = ConsumerGroup(
            commands=self.redis,
            reader=reader,
            stream_key=stream_key,
            group=group,
            name=name,
            heartbeat_prefix=f"{self.prefix}heartbeat:{stream}:{group}:",
        )
        attempts = Attempts(
            group=group,
            handler=handler,
            limits=limits,
            delay=delay,
            dead_letters=self.dead_letters(stream),
            random=self._random,
        )
        return Consumer(
            group=consumer_group,
            attempts=attempts,
            settings=chosen,
            clock=self._clock,
            random=self._random,
            delays=delay,
            trim=lambda: self.trim(stream),
            close=reader.aclose,
        )

    async def trim(self, stream: str) -> int:
        """Remove entries that every group has read and acknowledged; returns how many."""
        return await safe_trim(self.redis, f"{self.prefix}{stream}", GROUPS.get(stream, ()))

    def dead_letters(self, stream: str) -> DeadLetters:
        """The dead letters of a stream."""
        return DeadLetters(self.redis, self.prefix, stream)

    async def depth(self, stream: str) -> StreamDepth:
        """Entries, groups and dead letters of a stream. A stream that does not exist is empty."""
        stream_key = f"{self.prefix}{stream}"
        length = int(await call(self.redis, "read the length", "XLEN", stream_key))
        exists = await call(self.redis, "find the stream", "EXISTS", stream_key)
        infos = (
            await call(self.redis, "list groups", "XINFO", "GROUPS", stream_key) if exists else []
        )
        groups = dict(_group_depth(pairs(info)) for info in infos)
        return StreamDepth(length, groups, await self.dead_letters(stream).count())

    async def memory(self) -> Memory:
        """How much memory Redis uses, and how much it may use."""
        answer = await call(self.redis, "read the memory", "INFO", "memory")
        fields = dict(line.partition(b":")[::2] for line in answer.splitlines())
        return Memory(int(fields.get(b"used_memory", 0)), int(fields.get(b"maxmemory", 0)))

    async def oldest_pending(self, stream: str, group: str) -> float | None:
        """When the oldest entry that ``group`` read and has not acknowledged was added, in seconds since the epoch."""
        found = await call(
            self.redis, "find the oldest entry", "XPENDING", f"{self.prefix}{stream}", group
        )
        return int(found[1].partition(b"-")[0]) / 1000 if found and found[1] else None

    async def unread(self, stream: str, group: GroupDepth) -> Unread:
        """What waits for a group, counted up to ``MOST_COUNTED`` where Redis does not know the number."""
        most = MOST_COUNTED if group.lag is None else 1
        found = await call(
            self.redis, "count what waits", "XRANGE", f"{self.prefix}{stream}",
            b"(" + group.last, "+", "COUNT", most,
        )  # fmt: skip
        oldest = int(found[0][0].partition(b"-")[0]) / 1000 if found else None
        if group.lag is not None:
            return Unread(group.lag, False, oldest)
        return Unread(len(found), len(found) == most, oldest)

    async def delayed(self, stream: str) -> int:
        """Messages of a stream that wait for a retry."""
        return int(await call(self.redis, "count retries", "ZCARD", f"{self.prefix}delay:{stream}"))

    async def waiting(self, stream: str, group: str) -> int:
        """Entries that ``group`` has not acknowledged; unread ones count only where Redis knows ``GroupDepth.lag``."""
        stream_key = f"{self.prefix}{stream}"
        if not await call(self.redis, "find the stream", "EXISTS", stream_key):
            return 0
        infos = await call(self.redis, "list groups", "XINFO", "GROUPS", stream_key)
        depth = dict(_group_depth(pairs(info)) for info in infos).get(group, GroupDepth(0, 0))
        return depth.pending + (depth.lag or 0)


def _group_depth(info: dict[bytes, Any]) -> tuple[str, GroupDepth]:
    depth = GroupDepth(
        int(info[b"pending"]),
        info.get(b"lag"),
        int(info.get(b"consumers", 0)),
        info.get(b"last-delivered-id", b"0-0"),
    )
    return info[b"name"].decode(), depth
