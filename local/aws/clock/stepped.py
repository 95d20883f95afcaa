"""The emulator's time: real, and ahead of it by what ``POST clock`` has added.

So a test can wait out a describe lag, a reservation's end or the retention of terminated instances in no time.
"""

from __future__ import annotations

from shared.concurrency.clock import Clock


class SteppedClock:
    """``clock`` plus every step so far; only ``reset`` lets time go back."""

    def __init__(self, clock: Clock) -> None:
        self.real = clock
        self._ahead_seconds = 0.0

    def now(self) -> float:
        return self.real.now() + self._ahead_seconds

    def monotonic(self) -> float:
        return self.real.monotonic() + self._ahead_seconds

    def step(self, seconds: float) -> None:
        """Let ``seconds`` pass at once. At least 0."""
        self._ahead_seconds += seconds

    def reset(self) -> None:
        """Be real time again, when nothing is left that happened at a later one."""
        self._ahead_seconds = 0.0
