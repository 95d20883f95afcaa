"""Rebalance recommendations: spot machines are replaced before they are drained, if their pool is set to (INT-43).

The interruption service writes the recommendation on the machine as an annotation. Budgets apply: a recommendation is
not an interruption notice, and half of a zone may get one at once. A machine that is interrupted meanwhile is deleted
at once by the interruption service.
"""

from __future__ import annotations

from shared.disruption.methods.replacing import replace_first, unblocked_by_grace_period
from shared.disruption.records import REBALANCE, Candidate, Proposal, World
from shared.domain import labels as keys
from shared.domain.pools.nodepools import DRAIN

METHOD = "rebalance"


def propose(world: World) -> Proposal:
    """One command for the machine with the oldest recommendation among those whose pods fit elsewhere."""
    found = map(unblocked_by_grace_period, recommended(world))
    return replace_first(world, found, METHOD, REBALANCE)


def recommended(world: World) -> list[Candidate]:
    """Candidates with a recommendation, oldest first, unless their pool is now set to ignore recommendations."""
    found = filter(is_recommended, world.candidates)
    return sorted(found, key=lambda c: (c.machine.annotations[keys.REPLACE_ANNOTATION], c.name))


def is_recommended(candidate: Candidate) -> bool:
    """Is this machine to be replaced because of a recommendation?"""
    annotated = keys.REPLACE_ANNOTATION in candidate.machine.annotations
    return annotated and candidate.pool.rebalance in ("", DRAIN)
