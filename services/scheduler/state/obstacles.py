"""What lately kept planned machines from being made: for ``explain`` about pods and pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.concurrency.clock import Clock

KEPT_SECONDS = 600.0
"""Each round tries again, and notes the same again."""


@dataclass
class Obstacles:
    """Of this scheduler alone; a standby knows of none."""

    clock: Clock
    _refusals: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Pool key -> text and monotonic seconds."""
    _holds: dict[tuple[str, str], str] = field(default_factory=dict)
    """(pool key, workload) -> text."""

    def refused(self, pool_key: str, text: str) -> None:
        """The API server refused a machine of the pool."""
        self._refusals[pool_key] = (text, self.clock.monotonic())

    def made(self, pool_key: str) -> None:
        """A machine of the pool was written."""
        self._refusals.pop(pool_key, None)

    def hold(self, holds: Mapping[tuple[str, str], str]) -> None:
        """All that the back-off of the latest round holds back, in place of what earlier ones did."""
        self._holds = dict(holds)

    def of_pool(self, pool_key: str) -> str:
        """Why no machine of the pool is made; empty: nothing is known."""
        text, at = self._refusals.get(pool_key, ("", 0.0))
        return text if self.clock.monotonic() - at <= KEPT_SECONDS else ""

    def of_workload(self, workload: str) -> dict[str, str]:
        """Pool key -> why none of its machines is made for this workload."""
        refused = {key: text for key in self._refusals if (text := self.of_pool(key))}
        held = {key: text for (key, one), text in self._holds.items() if one == workload}
        return {**held, **refused}
