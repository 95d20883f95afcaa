"""Whether the picture of the cluster in a mirror's reader may be relied on, and why not (OPS-13)."""

from __future__ import annotations

from shared.concurrency.clock import LARGEST_SKEW_SECONDS, Clock
from shared.redis.mirror.reader import MirrorReader

BOOKMARK_SECONDS = 60.0
"""A sound watch of a quiet kind is silent for so long between two bookmarks."""


def not_synced(reader: MirrorReader, *, now: float, max_age: float, patience: float = 0.0) -> str:
    """Empty when it may be acted on. ``now`` is monotonic; ``max_age`` of the picture and ``patience`` with a doubt
    are seconds."""
    if not reader.complete:
        return "the mirror is not complete: is the watcher running?"
    age = reader.age(now)
    if age > max_age:
        return f"the mirror is {age:.0f} s old: is the watcher running?"
    if reader.doubt and reader.doubtful_seconds(now) >= patience:
        return f"the mirror is not verified: {reader.doubt}"
    return unsound(reader, now=now, max_age=max_age)


def clock_doubt(reader: MirrorReader, clock: Clock) -> str:
    """Why nothing that lasts may be decided by the wall clock; empty when the clock of Redis agrees with it."""
    ahead = 0.0 if reader.server_time is None else reader.server_time.seconds_ahead(clock)
    if abs(ahead) <= LARGEST_SKEW_SECONDS:
        return ""
    return f"the clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} that of Redis: set both"


def unsound(reader: MirrorReader, *, now: float, max_age: float) -> str:
    """The first resource whose changes may pass unseen; empty for none."""
    if not reader.watched():
        return "the watcher has not said yet how far its watches are: is it of this version?"
    for plural in reader.watched():
        position = reader.position(plural, now)
        if position is not None and not position.sound:
            return f"the watch of {plural} has been broken for {position.seconds:.0f} s: see the watcher's log"
        if position is not None and position.seconds > max_age + BOOKMARK_SECONDS:
            return f"the watch of {plural} has been silent for {position.seconds:.0f} s: see the watcher's log"
    return ""
