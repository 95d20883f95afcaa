"""A clock in the test's hand."""

from __future__ import annotations


class FakeClock:
    """Wall and monotonic time that move when told."""

    def __init__(self, *, seconds: float = 1000.0, wall: float = 1.7e9) -> None:
        self.seconds = seconds
        self.wall = wall

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.seconds += seconds
        self.wall += seconds
