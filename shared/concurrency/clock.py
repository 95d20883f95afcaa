"""Time comes through this door: wall time for stamps that people and other machines read, monotonic for durations."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a service may ask about time."""

    def now(self) -> float:
        """Seconds since the epoch, UTC. Only for stamps and for comparison with other stamps."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards. For every duration and timeout."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def rfc3339(seconds: float) -> str:
    """Kubernetes' ``metav1.Time``: whole seconds, UTC, a trailing Z."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_rfc3339(text: str) -> float:
    """Seconds since the epoch. Raises ValueError for anything that is not a timestamp."""
    return datetime.fromisoformat(text).timestamp()
