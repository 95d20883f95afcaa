"""Notices between their sources and the worker: the most urgent is taken first, not the oldest.

Bounded: a source waits for room, and SQS keeps meanwhile what was not received. An entry whose delivery has expired is
dropped when its turn comes: SQS has given the message to another reader by then.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from services.interruption.notices.notice import Notice, Rank

LIMIT = 400
"""Enough to choose from; after a kill each of these waits for its next delivery."""


def nothing() -> None:
    """For sources that need not know what became of a notice."""


def never() -> float:
    """For sources that have no other reader."""
    return math.inf


@dataclass(frozen=True)
class Entry:
    """A notice in the backlog. Once it was taken, one of ``done`` and ``again`` is called: it was handled, or it is to
    come again."""

    notice: Notice
    done: Callable[[], None] = nothing
    until: Callable[[], float] = never
    """Monotonic time from which the source may give the notice to another reader."""
    again: Callable[[], None] = nothing


@dataclass
class Backlog:
    """Any number of sources put, one worker takes."""

    limit: int = LIMIT
    expired: int = 0
    _waiting: asyncio.PriorityQueue[tuple[Rank, int, Entry]] = field(init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._waiting = asyncio.PriorityQueue(self.limit)

    def __len__(self) -> int:
        return self._waiting.qsize()

    async def put(self, entry: Entry, rank: Rank) -> None:
        await self._waiting.put((rank, next(self._numbers), entry))

    async def take(self, now: Callable[[], float]) -> Entry:
        """The most urgent entry whose delivery has not expired; ``now`` reads the monotonic clock."""
        while True:
            _, _, entry = await self._waiting.get()
            if now() < entry.until():
                return entry
            self.expired += 1
