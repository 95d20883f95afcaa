"""How long pods waited for the first decision about them, whether it found a place or not (POD-11).

In memory only: after a restart the pods that wait are decided on without being timed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

MOST_SEEN = 20_000
"""Pods that are timed at the same time; of more the others are not timed."""


@dataclass
class DecisionLatency:
    """Remembers pods by UID while they wait; times are monotonic seconds."""

    _seen: dict[str, float] = field(default_factory=dict)
    """When a pod without a decision was first seen."""
    _decided: set[str] = field(default_factory=set)

    def see(self, uid: str, *, now: float) -> None:
        """A pod waits; only the first call for it counts."""
        if uid not in self._decided and len(self._seen) < MOST_SEEN:
            self._seen.setdefault(uid, now)

    def decide(self, uids: Collection[str], *, waiting: Collection[str], now: float) -> list[float]:
        """Seconds that those of ``uids`` waited about which this is the first decision. Of pods that are not among
        ``waiting`` nothing is remembered."""
        took = [now - self._seen[uid] for uid in uids if uid in self._seen]
        still = set(waiting)
        self._decided = (self._decided | {*uids}) & still
        self._seen = {
            uid: at for uid, at in self._seen.items() if uid in still and uid not in self._decided
        }
        return took

    def undecided(self) -> dict[str, float]:
        """Since when each pod waits for its first decision."""
        return dict(self._seen)
