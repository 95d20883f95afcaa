"""The emulator's time: real time plus the steps that ``POST clock`` added.

A test can thereby pass a describe lag, a reservation's end or the retention of terminated instances without waiting.
"""

from __future__ import annotations

from shared.concurrency.clock import Clock


class SteppedClock:
    """``clock`` plus every step so far; only ``reset`` moves time backwards."""

    def __init__(self, clock: Clock) -> None:
        self.real = clock
        self._ahead_seconds = 0.0

    def now(self) -> float:
        return self.real.now() + self._ahead_seconds

    def monotonic(self) -> float:
        return self.real.monotonic() + self._ahead_seconds

    def step(self, seconds: float) -> None:
        """Advance the time by ``seconds`` at once. At least 0."""
        self._ahead_seconds += seconds

    def reset(self) -> None:
        """Return to real time. Call this only when no state with a later time is left."""
        self._ahead_seconds = 0.0
