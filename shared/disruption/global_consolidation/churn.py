"""Limits on churn: the saving that moved pods must bring, and the age that a machine must have, before it is moved."""

from __future__ import annotations

import msgspec

from shared.disruption.records import Candidate
from shared.domain.machines.machine import INITIALIZED
from shared.errors import ConfigurationError

_HOUR = 3600


class Churn(msgspec.Struct, frozen=True):
    """Settings: a command must save the cost of its pod moves within ``payback_seconds``."""

    move_cost_micro_usd: int = 5_000
    """The assumed cost of moving one pod."""
    payback_seconds: int = _HOUR
    rest_seconds: float = 60.0
    """A machine that was initialised more recently is not disrupted."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError for an invalid value."""
        if self.move_cost_micro_usd < 0 or self.rest_seconds < 0:
            raise ConfigurationError("move cost and rest must not be negative")
        if self.payback_seconds < 1:
            raise ConfigurationError("payback must be at least one second")

    def required_saving(self, moved_pods: int) -> int:
        """The least saving, in micro-USD per hour, for moving so many pods; rounded up."""
        return -(-self.move_cost_micro_usd * moved_pods * _HOUR // self.payback_seconds)

    def is_too_new(self, candidate: Candidate, *, now: float) -> bool:
        """Was the machine initialised less than ``rest_seconds`` ago? Without the condition it counts as new."""
        condition = candidate.machine.conditions.get(INITIALIZED)
        return condition is None or now - condition.since < self.rest_seconds
