"""The clocks: wall time for timestamps, monotonic time for durations. Code gets its time only from a ``Clock``."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """A source of time, so that tests can control it."""

    def now(self) -> float:
        """Seconds since the epoch, UTC. Only for timestamps and their comparison."""
        ...

    def monotonic(self) -> float:
        """Seconds that never decrease. For every duration and timeout."""
        ...


@dataclass(frozen=True, slots=True)
class SteadyTime:
    """Wall time from a moment on, without what the wall clock jumps ahead after it. The moment by both clocks."""

    monotonic: float
    wall: float

    @classmethod
    def begin(cls, clock: Clock) -> SteadyTime:
        """The moment is now."""
        return cls(clock.monotonic(), clock.now())

    def now(self, clock: Clock) -> float:
        """Seconds since the epoch."""
        return min(clock.now(), self.wall + clock.monotonic() - self.monotonic)

    def seconds_ahead(self, clock: Clock) -> float:
        """How much further the wall clock went than the monotonic one; negative: it fell behind."""
        return clock.now() - self.wall - (clock.monotonic() - self.monotonic)


LARGEST_SKEW_SECONDS = 60.0
"""Between the clocks of two machines whose clocks are set."""


class SystemClock:
    """The clocks of the operating system."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def rfc3339(seconds: float) -> str:
    """Kubernetes' ``metav1.Time``: whole seconds, UTC, a trailing Z."""
    return _rfc3339(math.floor(round(seconds, 6)))


@lru_cache(maxsize=256)
def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def credible(at: float, *, now: float, otherwise: float) -> float:
    """``at``, a time that another process wrote down; ``otherwise`` when it lies so far ahead that the clock of its
    writer was wrong: nothing may wait until then.
    """
    return at if at <= now + LARGEST_SKEW_SECONDS else otherwise


@lru_cache(maxsize=4096)
def parse_rfc3339(text: str) -> float:
    """Seconds since the epoch. Raises ValueError for anything that is not a timestamp."""
    return datetime.fromisoformat(text).timestamp()
