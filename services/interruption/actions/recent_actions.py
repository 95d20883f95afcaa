"""What was done a moment ago, while the mirror may not show it yet."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

REMEMBERED = 50_000


@dataclass
class Memory:
    """At most ``REMEMBERED`` names."""

    _until: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def first(self, name: str, now: float, seconds: float) -> bool:
        """Whether ``name`` was not done in the last ``seconds``; it is now."""
        if self._until.get(name, now) > now:
            return False
        self._until[name] = now + seconds
        self._until.move_to_end(name)
        if len(self._until) > REMEMBERED:
            self._until.popitem(last=False)
        return True

    def forget(self, name: str) -> None:
        """It failed: the next one tries again."""
        self._until.pop(name, None)
