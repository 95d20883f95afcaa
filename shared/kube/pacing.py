"""Pacing of calls: a token bucket before each, jittered exponential back-off after a failed one.

Both bound what a fault can cost: the bucket caps the load on the API server, the back-off spreads
the callers that an outage has synchronised (F16). What may go wrong: a bucket whose
clock stands still never refills, so waits are capped and end in ``Throttled`` instead of for ever.
"""

from __future__ import annotations

import asyncio
from random import Random

from shared.clock import Clock
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
        """Take a token, in debt if need be; returns the seconds to wait before using it.

        Raises Throttled, and takes nothing, when that would be over 30 s.
        """
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        wait = max(0.0, (1.0 - self._tokens) / self._rate)
        if wait > LONGEST_WAIT_SECONDS:
            raise Throttled(f"our own limit of {self._rate:g} calls/s is used up for {wait:.0f} s")
        self._tokens -= 1.0
        return wait

    async def acquire(self) -> None:
        """Wait for a token. Raises Throttled when the queue is longer than 30 s."""
        wait = self.reserve()
        if wait > 0:
            await asyncio.sleep(wait)


class Backoff:
    """Delays that double from ``first`` to ``cap`` seconds, each cut by a random half."""

    def __init__(self, random: Random, *, first: float = 0.5, cap: float = 30.0) -> None:
        self._random = random
        self._first = first
        self._cap = cap
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Seconds to wait after one more failure; ``at_least`` is what the server asked for."""
        # 2**16 is beyond any cap in use; the bound keeps the power small after days of outage.
        delay = min(self._cap, self._first * 2.0 ** min(self._failures, 16))
        self._failures += 1
        jittered = delay * self._random.uniform(0.5, 1.0)
        return max(jittered, min(at_least, self._cap) * self._random.uniform(1.0, 1.2))

    def reset(self) -> None:
        """Call after success: the next delay is the first one again."""
        self._failures = 0
