"""What a round decides on: the mirror's snapshot as its question changes it. Pure.

The scheduler and replay both begin here. A rule about pods or pools that holds in only one of them would make a record
that cannot be repeated, and one that holds only in disruption would let plans buy what disruption removes.
"""

from __future__ import annotations

from shared.domain.pools import hours
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.scale_down import with_expendable, with_unneeded_time
from shared.simulation.decisions.records import PassQuestion, PlanQuestion
from shared.solver.virtual_pods import seated, with_virtual_pods


def to_plan(snapshot: Snapshot, question: PlanQuestion) -> Snapshot:
    """Pools by their hours; pods wait too for which room is kept (GAT-02)."""
    return with_virtual_pods(_judged(snapshot, question), question.settings, now=question.now)


def to_survey(snapshot: Snapshot, question: PassQuestion) -> Snapshot:
    """Pools by their hours; pods for which room is kept are on the nodes where they fit."""
    judged = with_unneeded_time(_judged(snapshot, question), question.rules.unneeded_seconds)
    return seated(judged, question.settings, now=question.now)


def _judged(snapshot: Snapshot, question: PlanQuestion | PassQuestion) -> Snapshot:
    marked = with_expendable(snapshot, question.settings.priority_cutoff)
    return hours.at(marked, now=question.now)
