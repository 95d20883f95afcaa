"""Messages and queues: everything is delivered, and nothing grows without bound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.redis.bus.connection import key_prefix
from shared.redis.bus.dead_letters import DEAD_LIMIT
from shared.redis.bus.delay import DELAY_LIMIT
from shared.redis.bus.publisher import STREAM_LIMIT
from shared.redis.mirror.change import MirrorKeys
from shared.redis.mirror.writer import STREAM_LIMIT as MIRROR_STREAM_LIMIT
from shared.redis.streams import GROUPS

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

NEW_GROUP = "xgroup|create"
"""The command whose event names the group."""
MOST_DELIVERIES = 5
"""After so many a message is kept as a dead letter."""
LOOK_SECONDS = 10.0
APPROXIMATION = 1.1
"""Redis trims whole nodes of a stream: it may be a tenth longer than its limit."""
MOST_KEYS = 5_000
"""Keys of a small cluster: kinds, streams, catalogue, and what is kept of the last minutes for deduplication."""
QUIET_STREAM = 1_000
"""Entries of a stream without work: what every group has read is trimmed every half minute."""


def prefix_of(world: World) -> str:
    """The prefix of every key of the simulated cluster."""
    return key_prefix(world.emulator.settings.cluster_name)


@dataclass
class EveryMessageIsSettled:
    """I7, F4, F5: at the end no message is unread, unacknowledged or put off."""

    name: str = "every message is settled"

    def check(self, world: World) -> list[str]:
        """Streams with work."""
        prefix, found = prefix_of(world), []
        for stream, readers in GROUPS.items():
            key = prefix + stream
            for name in readers:
                if name not in world.redis.groups(key):
                    found.append(f"nobody reads {stream} as {name}")
                pending, unread = len(world.redis.pending(key, name)), world.redis.unread(key, name)
                if pending or unread:
                    found.append(f"{stream} for {name}: {pending} pending, {unread} unread")
            delayed = len(world.redis.members(f"{prefix}delay:{stream}"))
            if delayed:
                found.append(f"{delayed} messages of {stream} are put off")
        return found


@dataclass
class NoMessageIsDropped:
    """I7, F11: an entry leaves its stream when every group has read and acknowledged it.

    What Redis itself loses (an empty or older server) is a fault of Redis, after which everything is listed anew.
    """

    name: str = "no message is dropped before all have handled it"
    kinds: tuple[str, ...] = ("redis", "fault")
    _known: dict[str, dict[str, None]] = field(default_factory=dict)
    """Stream -> ids of its entries after the last event, in order."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when entries are removed."""
        if event.kind == "fault":
            # A failover takes writes back, a flush drops everything: what is there afterwards counts.
            if _is_of_redis(event):
                self._known.clear()
            return []
        stream = str(event.fields["stream"])
        if stream not in GROUPS or event.fields["command"] not in ("xadd", "xdel", "xtrim"):
            return []
        key, known = prefix_of(world) + stream, self._known.setdefault(stream, {})
        if event.fields["command"] == "xadd":
            last = next(reversed(known), "")
            known |= dict.fromkeys(one.id for one in world.redis.entries(key, last))
            return []
        now = dict.fromkeys(one.id for one in world.redis.entries(key))
        self._known[stream] = now
        return [
            f"{event.fields['command']} removed {entry} of {stream}, which {group} has not handled"
            for entry in known
            for group in GROUPS[stream]
            if entry not in now and not world.redis.is_settled(key, group, entry)
        ]


def _is_of_redis(event: Event) -> bool:
    return str(event.fields.get("fault", "redis")).startswith(("redis", "disk"))


@dataclass
class GroupsReadEverything:
    """I7, F11: a group that is created (again) begins with the oldest entry of its stream: nobody handled it yet."""

    name: str = "a new group reads all that is on its stream"
    kinds: tuple[str, ...] = ("redis",)

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a group is created."""
        stream, group = str(event.fields["stream"]), str(event.fields.get("group"))
        if event.fields["command"] != NEW_GROUP or group not in GROUPS.get(stream, ()):
            return []
        key = prefix_of(world) + stream
        skipped = world.redis.length(key) - world.redis.unread(key, group)
        return [f"the new group {group} of {stream} skips {skipped} entries"] if skipped else []


@dataclass
class FailuresComeAgain:
    """F4, F5: a message whose handling failed stays with its group until it is handled again, or is a dead letter.

    What Redis itself loses is a fault of Redis.
    """

    name: str = "a message whose handling failed comes again"
    kinds: tuple[str, ...] = ("redis", "failure", "fault")
    _failed: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Stream, group and entry -> how often the entry was delivered when its handling failed."""

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when entries are acknowledged, which must have been delivered once more before."""
        if event.kind == "fault":
            if _is_of_redis(event):
                self._failed.clear()
            return []
        if event.kind == "failure":
            self._note(event, world)
            return []
        stream = str(event.fields["stream"])
        if event.fields["command"] not in ("xack", "xclaim"):
            return []
        return [
            f"{group} acknowledged {entry} of {stream}, whose handling failed"
            for known, group, entry in list(self._failed)
            if known == stream and self._is_forgotten(stream, group, entry, world)
        ]

    def _note(self, event: Event, world: World) -> None:
        entry, deliveries = event.fields.get("entry"), event.fields.get("deliveries")
        if entry is None or not isinstance(deliveries, int):
            return
        group = str(event.fields["name"]).rpartition("-")[0]
        found = [
            (stream, group, one.id)
            for stream, readers in GROUPS.items()
            if group in readers
            for one in world.redis.pending(prefix_of(world) + stream, group)
            if one.id == entry and one.deliveries == deliveries < MOST_DELIVERIES
        ]
        if len(found) == 1:  # Entries of two streams may have the same id.
            self._failed[found[0]] = deliveries

    def _is_forgotten(self, stream: str, group: str, entry: str, world: World) -> bool:
        pending = world.redis.pending(prefix_of(world) + stream, group)
        held = next((one for one in pending if one.id == entry), None)
        if held is not None and held.deliveries <= self._failed[stream, group, entry]:
            return False
        del self._failed[stream, group, entry]
        return held is None


@dataclass
class StreamsAreTrimmed:
    """F11, I12: at the end streams hold no more than the last moments: what all have read is dropped."""

    name: str = "streams are trimmed"

    def check(self, world: World) -> list[str]:
        """Streams that are too long for a cluster without work."""
        prefix = prefix_of(world)
        lengths = {stream: world.redis.length(prefix + stream) for stream in GROUPS}
        return [
            f"{stream} holds {length} entries, at most {QUIET_STREAM} without work"
            for stream, length in lengths.items()
            if length > QUIET_STREAM
        ]


@dataclass
class QueuesAreBounded:
    """F10, F32, I12: streams, dead letters, put-off messages and keys never exceed their documented limits."""

    name: str = "every queue in Redis is bounded"
    kinds: tuple[str, ...] = ("redis",)
    _next: float = 0.0

    def check(self, event: Event, world: World) -> list[str]:
        """Judged every few seconds."""
        if event.at < self._next:
            return []
        self._next = event.at + LOOK_SECONDS
        prefix = prefix_of(world)
        sizes = [("keys", len(world.redis.keys()), MOST_KEYS)]
        cluster = MirrorKeys(prefix).stream
        sizes.append(("cluster", world.redis.length(cluster), MIRROR_STREAM_LIMIT))
        for stream in GROUPS:
            key = prefix + stream
            sizes += [
                (stream, world.redis.length(key), STREAM_LIMIT),
                (f"{stream}:dead", world.redis.length(f"{key}:dead"), DEAD_LIMIT),
                (
                    f"delay:{stream}",
                    len(world.redis.members(f"{prefix}delay:{stream}")),
                    DELAY_LIMIT,
                ),
            ]
        return [
            f"{name} has {size} entries, at most {most}"
            for name, size, most in sizes
            if size > most * APPROXIMATION
        ]
