"""Counters of one stream in this process. Plain numbers, no metrics library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BusMetrics:
    """Counts since process start. ``vanished``, ``dead`` and ``resets`` stay 0 in normal operation."""

    published: int = 0
    duplicates: int = 0
    publish_errors: int = 0
    delivered: int = 0
    handled: int = 0
    failed: int = 0
    acked: int = 0
    retried: int = 0
    moved: int = 0
    """Delayed retries that were due and were put back on the stream."""
    reclaimed: int = 0
    """Entries taken over from a slow or dead consumer, or from a read whose answer was lost."""
    vanished: int = 0
    """Entries that were deleted while pending: a client outside Dovetail trimmed the stream."""
    dead: int = 0
    trimmed: int = 0
    resets: int = 0
    """Times the group had to be created again: Redis was emptied."""
    redis_errors: int = 0
    handler_seconds: float = 0.0
