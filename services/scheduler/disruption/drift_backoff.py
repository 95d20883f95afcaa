"""Pools whose drifted machines are left alone for a while, because their replacements failed: pure (DRF-09).

Drift goes in the order of time, so a pool whose replacements never become ready would keep all others from their turn.
Each failed window of a pool is followed by one that is twice as long. Failures within a window change nothing, and the
first success ends it. A scheduler that begins to lead knows of no earlier failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b

FIRST_SECONDS, LONGEST_SECONDS = 60.0, 600.0


@dataclass(frozen=True)
class Window:
    """``failures``: in a row. ``until``: monotonic seconds, so that a wall clock that jumps holds no pool back."""

    failures: int
    until: float


@dataclass
class DriftBackoff:
    _windows: dict[str, Window] = field(default_factory=dict)
    """By pool key."""

    def fail(self, pool_key: str, *, now: float) -> float:
        """A replacement of this pool failed. The seconds that it is left alone from now; 0.0 within a window."""
        known = self._windows.get(pool_key, Window(0, now))
        if now < known.until:
            return 0.0
        seconds = window_seconds(pool_key, known.failures)
        self._windows[pool_key] = Window(known.failures + 1, now + seconds)
        return seconds

    def succeed(self, pool_key: str) -> None:
        """A replacement of this pool became ready."""
        self._windows.pop(pool_key, None)

    def held(self, replacing: frozenset[str], *, now: float) -> frozenset[str]:
        """Keys of the pools that are left alone now. One whose window is over tries one machine at a time:
        ``replacing`` has the keys of pools whose machines are being replaced."""
        return frozenset(
            key for key, window in self._windows.items() if now < window.until or key in replacing
        )


def window_seconds(pool_key: str, failures: int) -> float:
    """From half to the whole of the doubled time, differently for each pool, so that not all try again at once."""
    whole = min(FIRST_SECONDS * 2.0 ** min(failures, 10), LONGEST_SECONDS)
    digest = blake2b(f"{pool_key}/{failures}".encode(), digest_size=2).digest()
    return whole / 2 + whole / 2 * int.from_bytes(digest) / 0xFFFF
