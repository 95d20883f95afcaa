"""What moving pods may cost, and which machines rest: keeps global consolidation from stirring a cluster for cents."""

from __future__ import annotations

import msgspec

from shared.disruption.records import Candidate
from shared.domain.machines import INITIALIZED
from shared.errors import ConfigurationError

_HOUR = 3600


class Churn(msgspec.Struct, frozen=True):
    """A move must save, within ``payback_seconds``, what its pods cost to move."""

    move_cost_micro_usd: int = 5_000
    """Of one pod."""
    payback_seconds: int = _HOUR
    rest_seconds: float = 600.0
    """A machine that was initialised less long ago is not moved again."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError for what no command could keep to."""
        if self.move_cost_micro_usd < 0 or self.rest_seconds < 0:
            raise ConfigurationError("move cost and rest must not be negative")
        if self.payback_seconds < 1:
            raise ConfigurationError("payback must be at least one second")

    def required_saving(self, moved_pods: int) -> int:
        """Micro-USD per hour that moving so many pods must save at least, rounded up."""
        return -(-self.move_cost_micro_usd * moved_pods * _HOUR // self.payback_seconds)

    def is_too_new(self, candidate: Candidate, *, now: float) -> bool:
        """Was the machine bought a moment ago? One without the condition's time is not known to be old."""
        condition = candidate.machine.conditions.get(INITIALIZED)
        return condition is None or now - condition.since < self.rest_seconds
