"""Answers of AWS that several node classes use: classes that select the same and are looked up together ask once.

What may go wrong: AWS changes within the few seconds. The next turn sees it, as it sees a change right after a look.
After an edit of a class everything is asked anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from shared.concurrency.clock import Clock

FRESH_SECONDS = 10.0
"""Longer than a turn over all classes takes; much shorter than the minute between two turns."""
MOST_ANSWERS = 1000
Value = TypeVar("Value")


@dataclass
class SharedAnswers:
    """Failures are not shared: each class reports its own."""

    clock: Clock
    fresh_seconds: float = FRESH_SECONDS
    _known: dict[tuple[str, bytes], tuple[float, Any]] = field(default_factory=dict)

    async def find(
        self, what: str, selected: Sequence[Any] | str, look_up: Callable[[], Awaitable[Value]]
    ) -> Value:
        """What ``look_up`` found within the last seconds for the same ``selected``, a JSON value, else what it finds
        now. Raises as ``look_up``."""
        key = (what, msgspec.json.encode(selected, order="deterministic"))
        now = self.clock.monotonic()
        known = self._known.get(key)
        if known is not None and now - known[0] < self.fresh_seconds:
            found: Value = known[1]
            return found
        found = await look_up()
        if len(self._known) >= MOST_ANSWERS:
            self._known.clear()
        self._known[key] = (now, found)
        return found

    def forget(self) -> None:
        """What is asked next is asked of AWS."""
        self._known.clear()
