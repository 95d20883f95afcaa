"""The batching window: pure. Collects triggers until no new one comes, but not without end (BAT-02, BAT-03)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Window:
    """Opens with the first trigger; closes ``idle_seconds`` after the last new one or ``max_seconds`` after the first.

    Times are monotonic seconds, given by the caller. A repeated trigger does not extend the window.
    """

    idle_seconds: float
    max_seconds: float
    seen: set[str] = field(default_factory=set)
    opened_at: float | None = None
    last_at: float = 0.0

    def add(self, trigger: str, now: float) -> bool:
        """Note one trigger. True when it is new in this window."""
        if trigger in self.seen:
            return False
        if self.opened_at is None:
            self.opened_at = now
        self.seen.add(trigger)
        self.last_at = now
        return True

    def closes_at(self) -> float | None:
        """When the window closes if nothing more comes; None while it is not open."""
        if self.opened_at is None:
            return None
        return min(self.last_at + self.idle_seconds, self.opened_at + self.max_seconds)

    def close(self) -> tuple[int, float]:
        """Empty the window. Returns how many triggers it held and how long it was open, in seconds."""
        count, opened = len(self.seen), self.opened_at
        duration = self.last_at - opened if opened is not None else 0.0
        self.seen = set()
        self.opened_at = None
        return count, duration
