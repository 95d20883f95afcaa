"""Callbacks at monotonic due times: the port, and its implementation as one thread, because one thread per instance
would mean a thousand threads.

Callbacks run one after another, so they must be short. A callback that raises is logged, and the thread continues.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count
from typing import Protocol

from shared.concurrency.clock import Clock
from shared.log import get_logger

log = get_logger(__name__)

TIMER_LIMIT = 200_000
"""Most timers that wait at once; more of them mean a loop that schedules without bound."""


class Timers(Protocol):
    """Runs callbacks later, one at a time."""

    def start(self) -> None:
        """Run callbacks from now on."""
        ...

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Run ``callback`` ``seconds`` from now. Raises OverflowError when full."""
        ...

    def clear(self) -> None:
        """Remove every waiting callback."""
        ...

    def wake(self) -> None:
        """Check for due callbacks now, because the clock was stepped."""
        ...

    def stop(self) -> None:
        """Run no callback any more."""
        ...


class ThreadTimers:
    """A heap of (due, order, callback) served by one daemon thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._wake = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="timers", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def after(self, seconds: float, callback: Callable[[], None]) -> None:
        """Run ``callback`` on the timer thread ``seconds`` from now. Raises OverflowError when full."""
        with self._wake:
            if len(self._heap) >= TIMER_LIMIT:
                raise OverflowError(f"more than {TIMER_LIMIT} timers wait")
            due = self._clock.monotonic() + seconds
            heapq.heappush(self._heap, (due, next(self._order), callback))
            self._wake.notify()

    def clear(self) -> None:
        """Remove every waiting callback."""
        with self._wake:
            self._heap.clear()

    def wake(self) -> None:
        """Check for due callbacks now, because the clock was stepped."""
        with self._wake:
            self._wake.notify()

    def stop(self) -> None:
        """End the thread and wait for it at most a second."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        while (callback := self._next_due()) is not None:
            try:
                callback()
            except Exception:
                log.exception("emulator timer callback failed")

    def _next_due(self) -> Callable[[], None] | None:
        with self._wake:
            while not self._stopped:
                if not self._heap:
                    self._wake.wait()
                    continue
                remaining = self._heap[0][0] - self._clock.monotonic()
                if remaining <= 0:
                    return heapq.heappop(self._heap)[2]
                self._wake.wait(remaining)
        return None
