"""The hour before this console started, from the scheduler's records: pictures, changes and decisions.

It is read in a process of its own, because an hour of a large cluster takes many seconds and much memory.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from services.console.feed.history import History
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.child import Bounds

BOUNDS = Bounds("reading the recorded hour", seconds=120.0, memory_bytes=256 << 20, niceness=10)


class RecordedHour(NamedTuple):
    """``decisions``: rows as of ``Decisions``, oldest first."""

    history: History
    decisions: list[dict[str, Any]]


class HourQuestion(NamedTuple):
    """``end``: seconds since the epoch."""

    place: ArchivePlace
    end: float


def read_hour(question: HourQuestion) -> RecordedHour:
    """The body of the reading process. Raises Unavailable, NotFound and InvalidObject as the archive does."""
    # Only in the child: the records know all types of the solver, which take 20 MB.
    from services.console.recorded_log import hour_before

    return asyncio.run(hour_before(*question))
