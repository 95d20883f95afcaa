"""A token bucket before each call, which limits the load on the API server (F16).

What may go wrong: the queue for tokens grows without end, so a wait beyond 30 s fails at once with ``Throttled``.
"""

from __future__ import annotations

import asyncio

from shared.concurrency.clock import Clock
from shared.errors import Throttled

LONGEST_WAIT_SECONDS = 30.0


class TokenBucket:
    """At most ``rate`` calls a second over time, ``burst`` at once. First come, first served."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"rate {rate} must be above 0 and burst {burst} at least 1")
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock.monotonic()

    def reserve(self) -> float:
        """Take a token, possibly one of the future; returns the seconds to wait before its use.

        Raises Throttled, and takes nothing, when that would be over 30 s.
        """
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        wait = max(0.0, (1.0 - self._tokens) / self._rate)
        if wait > LONGEST_WAIT_SECONDS:
            raise Throttled(
                f"Dovetail's own limit of {self._rate:g} calls/s is used up for {wait:.0f} s"
            )
        self._tokens -= 1.0
        return wait

    async def acquire(self) -> None:
        """Wait for a token. Raises Throttled when the queue is longer than 30 s."""
        wait = self.reserve()
        if wait > 0:
            await asyncio.sleep(wait)
