"""Single-node consolidation: one machine is deleted, or replaced by a cheaper one (CON-10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set
from itertools import chain, zip_longest

from shared.disruption.methods.consolidation import (
    by_savings_ratio,
    compute,
    eligible,
    unconsolidatable,
)
from shared.disruption.records import Candidate, Command, Proposal, World
from shared.domain.pools.nodepools import UNDERUTILIZED

METHOD = "single-node"
MOST_SIMULATIONS = 60
"""Bound of one pass; Karpenter's bound is three minutes."""


def propose(
    world: World, *, first: Set[str] = frozenset(), most: int = MOST_SIMULATIONS
) -> Proposal:
    """One command for the first machine whose removal saves money, alternating between pools.

    ``first``: keys of machines that the last pass did not reach. ``most``: bound of simulations.
    """
    candidates, rejections = eligible(world)
    open_ = [c for c in candidates if world.left(c.machine.pool_key, UNDERUTILIZED) > 0]
    # The sort is stable: the pools still take turns among the machines that the last pass did not reach.
    queue = sorted(_interleaved(open_), key=lambda c: c.machine.key not in first)
    found = list(rejections)
    for position, candidate in enumerate(queue):
        if position == most:
            unseen = tuple(c.machine.key for c in queue[position:])
            return Proposal((), tuple(found), unseen)
        answer = compute(world, (candidate,), METHOD)
        if isinstance(answer, Command):
            return Proposal((answer,), tuple(found))
        found.append(unconsolidatable(candidate, answer))
    return Proposal((), tuple(found))


def _interleaved(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates of all pools in turn, by savings ratio within a pool, so that no pool waits for another."""
    pools: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in by_savings_ratio(candidates):
        pools[candidate.machine.pool_key].append(candidate)
    turns = zip_longest(*(pools[key] for key in sorted(pools)))
    return [candidate for candidate in chain.from_iterable(turns) if candidate is not None]
