"""Rebalance recommendations: spot machines are replaced before they are drained, if their pool is set to (INT-43).

The interruption service writes the recommendation on the machine as an annotation. Budgets apply: a recommendation is
not an interruption notice, and half of a zone may get one at once. A machine that is interrupted meanwhile is deleted
at once by the interruption service.
"""

from __future__ import annotations

from shared.disruption.methods.drift import unblocked_by_grace_period
from shared.disruption.methods.replacing import replace_one
from shared.disruption.records import REBALANCE, Candidate, Command, Proposal, Rejection, World
from shared.domain import labels as keys
from shared.domain.pools.nodepools import DRAIN

METHOD = "rebalance"
MOST_SIMULATIONS = 20


def propose(world: World) -> Proposal:
    """One command for the machine with the oldest recommendation among those whose pods fit elsewhere."""
    rejections: list[Rejection] = []
    found = [c for c in recommended(world) if world.left(c.machine.pool_key, REBALANCE) > 0]
    for candidate in found[:MOST_SIMULATIONS]:
        answer = replace_one(world, unblocked_by_grace_period(candidate), METHOD, REBALANCE)
        if isinstance(answer, Command):
            return Proposal((answer,), tuple(rejections))
        rejections.append(answer)
    return Proposal((), tuple(rejections))


def recommended(world: World) -> list[Candidate]:
    """Candidates with a recommendation, oldest first, unless their pool is now set to ignore recommendations."""
    found = [
        c
        for c in world.candidates
        if keys.REPLACE_ANNOTATION in c.machine.annotations and c.pool.rebalance in ("", DRAIN)
    ]
    return sorted(found, key=lambda c: (c.machine.annotations[keys.REPLACE_ANNOTATION], c.name))
