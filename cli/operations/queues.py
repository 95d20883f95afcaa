"""The depth of the streams, read from Redis without changing anything.

A group is drained when its consumers have no pending entry and the newest entry was delivered to it. ``lag`` of XINFO
GROUPS is not used: Redis 6.2 does not have it, and trimming makes it wrong (F11).

Errors: Redis does not answer (TransientError).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from shared.redis.bus.connection import connect, key_prefix, redis_errors
from shared.redis.streams import GROUPS


@dataclass(frozen=True)
class QueueDepth:
    """One stream and one group that reads it."""

    stream: str
    group: str
    length: int
    pending: int
    behind: bool
    dead: int

    @property
    def drained(self) -> bool:
        return self.pending == 0 and not self.behind


class _Commands(Protocol):
    """The used part of a Redis client: only ``shared.redis.bus`` imports the client library."""

    async def execute_command(self, *words: str) -> Any: ...


async def queue_depths(redis_url: str, cluster: str) -> list[QueueDepth]:
    """All streams of ``cluster``, in the order of ``shared.redis.streams``. Raises TransientError."""
    redis = connect(redis_url, connections=2)
    try:
        return [
            depth
            for stream, groups in GROUPS.items()
            for depth in await _stream_depths(redis, key_prefix(cluster), stream, groups)
        ]
    finally:
        await redis.aclose()


async def _stream_depths(
    redis: _Commands, prefix: str, stream: str, groups: tuple[str, ...]
) -> list[QueueDepth]:
    key = prefix + stream
    with redis_errors("look at a stream"):
        dead = int(await redis.execute_command("XLEN", f"{key}:dead"))
        if not await redis.execute_command("EXISTS", key):
            return [QueueDepth(stream, group, 0, 0, behind=False, dead=dead) for group in groups]
        newest = _pairs(await redis.execute_command("XINFO", "STREAM", key))
        known = [_pairs(raw) for raw in await redis.execute_command("XINFO", "GROUPS", key)]
    by_name = {group["name"].decode(): group for group in known}
    last = newest["last-generated-id"]
    return [_depth(stream, name, int(newest["length"]), last, by_name, dead) for name in groups]


def _depth(
    stream: str,
    name: str,
    length: int,
    last: bytes,
    groups: dict[str, dict[str, Any]],
    dead: int,
) -> QueueDepth:
    group = groups.get(name)
    if group is None:
        return QueueDepth(stream, name, length, 0, behind=length > 0, dead=dead)
    behind = _entry_id(group["last-delivered-id"]) < _entry_id(last)
    return QueueDepth(stream, name, length, int(group["pending"]), behind, dead)


def _pairs(flat: list[Any]) -> dict[str, Any]:
    return {key.decode(): value for key, value in zip(flat[::2], flat[1::2], strict=True)}


def _entry_id(text: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)
