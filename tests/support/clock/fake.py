"""A clock that the test controls."""

from __future__ import annotations


class FakeClock:
    """Wall and monotonic time that change only by calls of the test."""

    def __init__(self, *, seconds: float = 1000.0, wall: float = 1.7e9) -> None:
        self.seconds = seconds
        self.wall = wall

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        self.seconds += seconds
        self.wall += seconds
