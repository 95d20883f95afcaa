"""What the latest plans were computed from, so that a question about one can be answered by planning again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from shared.domain.snapshot import Snapshot
from shared.solver.solve import SolverSettings

MOST_PLANS = 10
"""Snapshots share the records that did not change between them; what they hold beside is a few MB for 20,000 pods."""


class PlanInputs(msgspec.Struct, frozen=True):
    """All that a plan depends on. ``now`` is in seconds since the epoch."""

    snapshot: Snapshot
    moving: frozenset[str]
    """UIDs of pods that were planned although they are bound."""
    settings: SolverSettings
    now: float


@dataclass
class RecentInputs:
    """By id of the plan, at most ``MOST_PLANS``."""

    _kept: OrderedDict[str, PlanInputs] = field(default_factory=OrderedDict)

    def keep(self, plan_id: str, inputs: PlanInputs) -> None:
        """Keep the inputs of one more plan, and let the oldest go."""
        self._kept[plan_id] = inputs
        self._kept.move_to_end(plan_id)
        while len(self._kept) > MOST_PLANS:
            self._kept.popitem(last=False)

    def of(self, plan_id: str) -> PlanInputs | None:
        """None for a plan that is not kept."""
        return self._kept.get(plan_id)
