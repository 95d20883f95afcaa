"""Machines that EC2 recommends to leave: replaced before they are drained, where their pool wants that (INT-43).

The interruption service writes the recommendation on the machine; without it nothing happens here. Within the pool's
budgets: a recommendation is no notice, and half a zone may get one at once. Who is interrupted meanwhile is deleted
without waiting for any of this.
"""

from __future__ import annotations

from shared.disruption.drift import unblocked_by_grace_period
from shared.disruption.records import REBALANCE, Candidate, Command, Proposal, Rejection, World
from shared.disruption.replacing import replace_one
from shared.domain import labels as keys
from shared.domain.nodepools import DRAIN

METHOD = "rebalance"
MOST_SIMULATIONS = 20


def propose(world: World) -> Proposal:
    """One command for the machine that was recommended first, of those whose pods find another place."""
    rejections: list[Rejection] = []
    found = [c for c in recommended(world) if world.left(c.machine.pool_key, REBALANCE) > 0]
    for candidate in found[:MOST_SIMULATIONS]:
        answer = replace_one(world, unblocked_by_grace_period(candidate), METHOD, REBALANCE)
        if isinstance(answer, Command):
            return Proposal((answer,), tuple(rejections))
        rejections.append(answer)
    return Proposal((), tuple(rejections))


def recommended(world: World) -> list[Candidate]:
    """Candidates that carry a recommendation, unless their pool says by now that it does not want to follow any."""
    found = [
        c
        for c in world.candidates
        if keys.REPLACE_ANNOTATION in c.machine.annotations and c.pool.rebalance in ("", DRAIN)
    ]
    return sorted(found, key=lambda c: (c.machine.annotations[keys.REPLACE_ANNOTATION], c.name))
