"""What this process did a moment ago, while the mirror may not show it yet."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

MOST_NAMES = 50_000


@dataclass
class RecentActions:
    """At most ``MOST_NAMES`` names of actions; the oldest goes first. ``now``: monotonic seconds."""

    _until: OrderedDict[str, float] = field(default_factory=OrderedDict)

    def begin(self, name: str, now: float, seconds: float) -> bool:
        """True, and remembered for ``seconds``, when ``name`` is not remembered; False when it is."""
        if self._until.get(name, now) > now:
            return False
        self._until[name] = now + seconds
        self._until.move_to_end(name)
        if len(self._until) > MOST_NAMES:
            self._until.popitem(last=False)
        return True

    def forget(self, name: str) -> None:
        """The action failed: the next attempt may begin at once."""
        self._until.pop(name, None)
