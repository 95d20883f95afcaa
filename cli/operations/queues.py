"""The depth of the streams, read from Redis without changing anything.

A group is drained when its consumers have no pending entry and the newest entry was delivered to it. ``lag`` of XINFO
GROUPS is not used: Redis 6.2 does not have it, and trimming makes it wrong (F11).

Errors: Redis does not answer (TransientError).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cli.stack.bus import connected_bus
from shared.redis.bus import Bus
from shared.redis.bus.connection import pairs, redis_errors
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


async def queue_depths(redis_url: str, cluster: str) -> list[QueueDepth]:
    """All streams of ``cluster``, in the order of ``shared.redis.streams``. Raises TransientError."""
    async with connected_bus(redis_url, cluster) as bus:
        return [
            depth
            for stream, groups in GROUPS.items()
            for depth in await _stream_depths(bus, stream, groups)
        ]


async def _stream_depths(bus: Bus, stream: str, groups: tuple[str, ...]) -> list[QueueDepth]:
    key = bus.prefix + stream
    command: Callable[..., Awaitable[Any]] = bus.redis.execute_command
    async with redis_errors("look at a stream"):
        dead = int(await command("XLEN", f"{key}:dead"))
        if not await command("EXISTS", key):
            return [QueueDepth(stream, group, 0, 0, behind=False, dead=dead) for group in groups]
        newest = pairs(await command("XINFO", "STREAM", key))
        known = [pairs(raw) for raw in await command("XINFO", "GROUPS", key)]
    length, last = int(newest[b"length"]), _entry_id(newest[b"last-generated-id"])
    depths: dict[str, QueueDepth] = {}
    for group in known:
        name, pending = group[b"name"].decode(), int(group[b"pending"])
        behind = _entry_id(group[b"last-delivered-id"]) < last
        depths[name] = QueueDepth(stream, name, length, pending, behind, dead)
    return [
        depths.get(name) or QueueDepth(stream, name, length, 0, length > 0, dead) for name in groups
    ]


def _entry_id(text: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)
