"""Bounded back-off for loops that outlive a lost connection."""

from __future__ import annotations

import asyncio
import random

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0


class Backoff:
    """Waits 0.1 s, doubling to 5 s, each shortened at random by up to half.

    Without a ``source`` of randomness the waits are not shortened.
    """

    def __init__(self, source: random.Random | None) -> None:
        self._source = source
        self._seconds = FIRST_SECONDS

    def reset(self) -> None:
        """Start again at the shortest wait."""
        self._seconds = FIRST_SECONDS

    async def wait(self, stop: asyncio.Event | None = None) -> None:
        """Wait, but not beyond the moment ``stop`` is set."""
        seconds = self._seconds * (self._source.uniform(0.5, 1.0) if self._source else 1.0)
        self._seconds = min(LONGEST_SECONDS, 2 * self._seconds)
        if stop is None:
            await asyncio.sleep(seconds)
            return
        try:
            async with asyncio.timeout(seconds):
                await stop.wait()
        except TimeoutError:
            return
