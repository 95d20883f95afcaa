"""The AWS emulator's timers on an event loop."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import copy_context
from itertools import count

from local.aws.clock.timers import TIMER_LIMIT
from shared.concurrency.clock import Clock


class LoopTimers:
    """A heap of (due, order, callback); one timer of the loop waits for the earliest.

    Callbacks run in the context in which the timers were made, whoever set them: a killed client takes none with it.
    """

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock, self._loop = clock, loop
        self._context = copy_context()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._handle: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Nothing has to be started."""

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Run ``callback`` ``seconds`` from now. Raises OverflowError when full."""
        if len(self._heap) >= TIMER_LIMIT:
            raise OverflowError(f"more than {TIMER_LIMIT} timers wait")
        entry = (self._clock.monotonic() + seconds, next(self._order), callback)
        heapq.heappush(self._heap, entry)
        if self._heap[0] is entry:
            self.wake()

    def clear(self) -> None:
        """Remove every waiting callback."""
        self._heap.clear()

    def wake(self) -> None:
        """Wait for the earliest callback."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._heap:
            seconds = max(0.0, self._heap[0][0] - self._clock.monotonic())
            self._handle = self._loop.call_later(seconds, self._run, context=self._context)

    def stop(self) -> None:
        """Remove every waiting callback and the timer."""
        self.clear()
        self.wake()

    def _run(self) -> None:
        self._handle = None
        now = self._clock.monotonic()
        try:
            while self._heap and self._heap[0][0] <= now:
                heapq.heappop(self._heap)[2]()
        finally:
            self.wake()
