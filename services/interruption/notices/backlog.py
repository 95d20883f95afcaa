"""Notices between their sources and the workers: the most urgent comes out first, not the oldest.

Bounded: a source waits for room, and what SQS holds back meanwhile it hands out again. An entry whose delivery has
run out is dropped when its turn comes: SQS has given the message to somebody by then.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from services.interruption.notices.notice import Notice, Rank

LIMIT = 400
"""Enough to choose from; all of it waits 20 s for its next delivery when the process is killed."""


def nothing() -> None:
    """For sources that need not hear that a notice is done with."""


@dataclass(frozen=True)
class Entry:
    """A notice on its way. ``done`` is called once when it is handled, never when handling failed."""

    notice: Notice
    done: Callable[[], None] = nothing
    until: float = math.inf
    """Monotonic time from which the source gives the notice to somebody else."""


@dataclass
class Backlog:
    """Any number of sources put, one dispatcher takes."""

    limit: int = LIMIT
    expired: int = 0
    _waiting: asyncio.PriorityQueue[tuple[Rank, int, Entry]] = field(init=False)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self._waiting = asyncio.PriorityQueue(self.limit)

    def __len__(self) -> int:
        return self._waiting.qsize()

    async def put(self, entry: Entry, rank: Rank) -> None:
        """Wait for room, then line up."""
        await self._waiting.put((rank, next(self._numbers), entry))

    async def take(self, now: Callable[[], float]) -> Entry:
        """The most urgent entry that is still ours to handle; ``now`` tells monotonic time."""
        while True:
            _, _, entry = await self._waiting.get()
            if now() < entry.until:
                return entry
            self.expired += 1
