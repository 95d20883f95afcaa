"""Never much is deleted at once: pure (F23)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

BREAKER_LEAST = 5
BREAKER_SHARE = 0.2
BREAKER_SECONDS = 600.0
"""At most max(5, 20 %) of a pool in 10 minutes (F23)."""


@dataclass
class Breaker:
    """Counts deletions of the last ten minutes by pool: more than allowed suggest a wrong list, not garbage."""

    taken: dict[str, dict[str, float]] = field(default_factory=dict)

    def admits(self, pool: str, names: Iterable[str], total: int, *, now: float) -> bool:
        """All of ``names`` or none; ``total``: how many the pool has. A name that was let go before counts once."""
        self._forget(now)
        taken = self.taken.get(pool, {})
        desired = {**dict.fromkeys(names, now), **taken}
        if len(desired) > max(BREAKER_LEAST, int(total * BREAKER_SHARE)):
            return False
        if desired:
            self.taken[pool] = desired
        return True

    def _forget(self, now: float) -> None:
        recent = {
            pool: {name: at for name, at in names.items() if now - at < BREAKER_SECONDS}
            for pool, names in self.taken.items()
        }
        self.taken = {pool: names for pool, names in recent.items() if names}
