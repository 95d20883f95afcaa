"""Messages and queues: everything is delivered, and nothing grows without bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shared.redis.bus.dead_letters import DEAD_LIMIT
from shared.redis.bus.delay import DELAY_LIMIT
from shared.redis.bus.publisher import STREAM_LIMIT
from shared.redis.mirror.change import MirrorKeys
from shared.redis.mirror.writer import STREAM_LIMIT as MIRROR_STREAM_LIMIT
from shared.redis.streams import GROUPS
from simulation.invariants.redis_contents import RedisContents, prefix_of

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

LOOK_SECONDS = 10.0
APPROXIMATION = 1.1
"""Redis trims whole nodes of a stream: it may be a tenth longer than its limit."""
MOST_KEYS = 5_000
"""Keys of a small cluster: kinds, streams, catalogue, and what is kept of the last minutes for deduplication."""
QUIET_STREAM = 1_000
"""Entries of a stream without work: what every group has read is trimmed every half minute."""


@dataclass
class EveryMessageIsSettled:
    """I7, F4, F5: at the end no message is unread, unacknowledged or put off."""

    contents: RedisContents
    name: str = "every message is settled"

    def check(self, world: World) -> list[str]:
        """Streams with work."""
        prefix, found = prefix_of(world), []
        for stream, readers in GROUPS.items():
            groups = {one.name: one for one in self.contents.groups(world, prefix + stream)}
            for name in readers:
                group = groups.get(name)
                if group is None:
                    found.append(f"nobody reads {stream} as {name}")
                elif group.pending or group.has_unread:
                    unread = "unread" if group.has_unread else "read"
                    found.append(
                        f"{stream} for {name}: {group.pending} pending, the rest is {unread}"
                    )
            delayed = self.contents.size(world, f"{prefix}delay:{stream}")
            if delayed:
                found.append(f"{delayed} messages of {stream} are put off")
        return found


@dataclass
class StreamsAreTrimmed:
    """F11, I12: at the end streams hold no more than the last moments: what all have read is dropped."""

    contents: RedisContents
    name: str = "streams are trimmed"

    def check(self, world: World) -> list[str]:
        """Streams that are too long for a cluster without work."""
        prefix = prefix_of(world)
        lengths = {stream: self.contents.length(world, prefix + stream) for stream in GROUPS}
        return [
            f"{stream} holds {length} entries, at most {QUIET_STREAM} without work"
            for stream, length in lengths.items()
            if length > QUIET_STREAM
        ]


@dataclass
class QueuesAreBounded:
    """F10, F32, I12: streams, dead letters, put-off messages and keys never exceed their documented limits."""

    contents: RedisContents
    name: str = "every queue in Redis is bounded"
    kinds: tuple[str, ...] = ("redis",)
    _next: float = 0.0

    def check(self, event: Event, world: World) -> list[str]:
        """Judged every few seconds."""
        if event.at < self._next:
            return []
        self._next = event.at + LOOK_SECONDS
        prefix = prefix_of(world)
        sizes = [("keys", self.contents.keys(world), MOST_KEYS)]
        cluster = MirrorKeys(prefix).stream
        sizes.append(("cluster", self.contents.length(world, cluster), MIRROR_STREAM_LIMIT))
        for stream in GROUPS:
            key = prefix + stream
            sizes += [
                (stream, self.contents.length(world, key), STREAM_LIMIT),
                (f"{stream}:dead", self.contents.length(world, f"{key}:dead"), DEAD_LIMIT),
                (
                    f"delay:{stream}",
                    self.contents.size(world, f"{prefix}delay:{stream}"),
                    DELAY_LIMIT,
                ),
            ]
        return [
            f"{name} has {size} entries, at most {most}"
            for name, size, most in sizes
            if size > most * APPROXIMATION
        ]
