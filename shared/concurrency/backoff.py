"""Exponential backoff for loops, calls, messages and launches."""

from __future__ import annotations

from random import Random

MOST_DOUBLINGS = 16
"""Reaches every cap in use; bounds the exponent after days of outage."""


def doubled(failures: int, *, first: float, cap: float) -> float:
    """Seconds to wait after ``failures`` earlier failures: ``first``, doubling with each failure up to ``cap``."""
    return min(cap, first * 2.0 ** min(failures, MOST_DOUBLINGS))


class Backoff:
    """Delays that double from ``first`` to ``cap`` seconds, each reduced by a random part of up to a half.

    The jitter spreads callers that an outage has synchronised. Without a source of randomness the delays are exact.
    """

    def __init__(self, random: Random | None, *, first: float = 0.5, cap: float = 30.0) -> None:
        self._random = random
        self._first = first
        self._cap = cap
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Seconds to wait after one more failure; ``at_least`` is the server's Retry-After."""
        delay = doubled(self._failures, first=self._first, cap=self._cap)
        self._failures += 1
        if self._random is None:
            return max(delay, min(at_least, self._cap))
        jittered = delay * self._random.uniform(0.5, 1.0)
        return max(jittered, min(at_least, self._cap) * self._random.uniform(1.0, 1.2))

    def reset(self) -> None:
        """Restart with the first delay. Call after a success."""
        self._failures = 0
