"""What is missing is believed only when it was missing in every look for a while: pure (R7)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Confirmation:
    """Since when something has been missing. Times are monotonic seconds."""

    first: dict[str, float] = field(default_factory=dict)

    def confirmed(self, lost: Iterable[str], *, now: float, grace: float) -> list[str]:
        """Those that were missing in every look for ``grace`` seconds; what reappeared is forgotten."""
        seen = set(lost)
        self.first = {name: self.first.get(name, now) for name in sorted(seen)}
        return [name for name, since in self.first.items() if now - since >= grace]
