"""What the latest plans and commands were computed from, so that a question about one is answered by planning again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from shared.disruption.folding import Folding
from shared.disruption.records import Candidate, World
from shared.domain.snapshot import Snapshot
from shared.solver.solve import SolverSettings

MOST_KEPT = 20
"""Snapshots share the records that did not change between them; what they hold beside is a few MB for 20,000 pods."""


class PlanInputs(msgspec.Struct, frozen=True):
    """All that a plan depends on. ``now`` is in seconds since the epoch."""

    snapshot: Snapshot
    moving: frozenset[str]
    """UIDs of pods that were planned although they are bound."""
    settings: SolverSettings
    now: float


class CommandInputs(msgspec.Struct, frozen=True):
    """All that the replacements of a command depend on."""

    world: World
    candidates: tuple[Candidate, ...]
    consolidating: bool
    """As of ``shared.disruption.simulation.simulate``."""


def command_inputs(
    world: World, candidates: tuple[Candidate, ...], *, consolidating: bool
) -> CommandInputs:
    """Without what the passes keep in the world for themselves: it is large, and grows anew."""
    bare = msgspec.structs.replace(world, candidates=(), folding=Folding(), balanced_scores=[])
    return CommandInputs(bare, candidates, consolidating)


@dataclass
class RecentInputs:
    """By id of the plan or command, at most ``MOST_KEPT``."""

    _kept: OrderedDict[str, PlanInputs | CommandInputs] = field(default_factory=OrderedDict)

    def keep(self, id_: str, inputs: PlanInputs | CommandInputs) -> None:
        """Keep the inputs of one more plan or command, and let the oldest go."""
        self._kept[id_] = inputs
        self._kept.move_to_end(id_)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)

    def of(self, id_: str) -> PlanInputs | CommandInputs | None:
        """None for what is not kept."""
        return self._kept.get(id_)
