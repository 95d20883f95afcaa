"""Supervised loops: an exception is logged with its loop's name and the loop is restarted.

The pause doubles from ``FIRST_PAUSE_SECONDS`` to ``LONGEST_PAUSE_SECONDS`` and is reset after a loop ran for more than
twice the longest pause. Cancellation is passed on. One failing controller therefore never stops another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from shared.concurrency.backoff import Backoff
from shared.log import get_logger

log = get_logger(__name__)

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 5.0
SLICE_SECONDS = 0.008
"""Time that one loop may hold the event loop before it yields."""


async def supervise(name: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run ``run`` again whenever it raises; return when it returns."""
    backoff = Backoff(None, first=FIRST_PAUSE_SECONDS, cap=LONGEST_PAUSE_SECONDS)
    while True:
        started = asyncio.get_running_loop().time()
        try:
            return await run()
        except Exception:
            log.exception("loop failed and starts again", loop=name)
        if asyncio.get_running_loop().time() - started > 2 * LONGEST_PAUSE_SECONDS:
            backoff.reset()
        await asyncio.sleep(backoff.next())


class TimeSlice:
    """Limits how long a loop runs without yielding: call ``await turn.share()`` in every long loop."""

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._until = asyncio.get_running_loop().time() + seconds

    async def share(self) -> None:
        """Yield to the event loop, but only if the slice is used up."""
        if asyncio.get_running_loop().time() >= self._until:
            await asyncio.sleep(0)
            self._until = asyncio.get_running_loop().time() + self._seconds
