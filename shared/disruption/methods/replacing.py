"""Replaces one machine, whatever the replacements cost: for expiration, drift and rebalance (DIS-61, DRF-06)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from shared.disruption.records import (
    BLOCKED,
    Candidate,
    Command,
    Proposal,
    Rejection,
    World,
    effect,
)
from shared.disruption.simulation import simulate
from shared.solver.output import machine_name
from shared.solver.plan import PlannedMachine
from shared.solver.pools.kept import fill

MOST_SIMULATIONS = 20
"""Bound of one pass; the remaining machines follow in the next."""


def replace_first(
    world: World, candidates: Iterable[Candidate], method: str, reason: str
) -> Proposal:
    """One command for the first of these machines, within the budgets, whose pods fit elsewhere; rejections of those
    before it.
    """
    rejections: list[Rejection] = []
    # Machines without a budget do not count towards the bound, or they could keep the others from their turn for ever.
    allowed = (c for c in candidates if world.left(c.machine.pool_key, reason) > 0)
    for candidate in islice(allowed, MOST_SIMULATIONS):
        answer = _replace_one(world, candidate, method, reason)
        if isinstance(answer, Command):
            return Proposal((answer,), tuple(rejections))
        rejections.append(answer)
    return Proposal((), tuple(rejections))


def unblocked_by_grace_period(candidate: Candidate) -> Candidate:
    """The candidate; with a terminationGracePeriod its pods do not block the disruption (DIS-13)."""
    if candidate.machine.termination_grace_seconds is None:
        return candidate
    return replace(candidate, blocker="", blocking_pod="")


def _replace_one(
    world: World, candidate: Candidate, method: str, reason: str
) -> Command | Rejection:
    """The command that removes this machine and creates what its pods need (DRF-06), or why there is none."""
    if candidate.blocker:
        return candidate.blocked(reason)
    outcome = simulate(world, (candidate,))
    if outcome.problem:
        return candidate.refused(outcome.problem, event=BLOCKED, reason=reason)
    bought = (*outcome.machines, *_kept(world, candidate, outcome.machines))
    cost = sum(machine.offering.price_micro_usd_per_hour for machine in bought)
    saving = (candidate.price_micro_usd_per_hour or cost) - cost
    moved, new = len(candidate.pods), len(bought)
    return Command(
        method,
        reason,
        (candidate,),
        bought,
        outcome.targets,
        saving_micro_usd_per_hour=saving,
        moved_pods=moved,
        text=f"{reason.lower()} node {candidate.node.name}, {new} replacement(s), {effect(moved, saving)}",
    )


def _kept(
    world: World, candidate: Candidate, planned: tuple[PlannedMachine, ...]
) -> tuple[PlannedMachine, ...]:
    """Further machines, without which the pool would be short of its minimum or headroom. What its limits do not
    allow is bought when the old machine is gone."""
    short = world.keeping.short((candidate,), planned).get(candidate.machine.pool_key)
    if short is None:
        return ()
    found = fill(world.snapshot, candidate.pool, short, world.solver).machines
    identity = f"{candidate.machine.uid}/kept"
    return tuple(
        replace(one, name=machine_name(candidate.pool.name, identity, index))
        for index, one in enumerate(found)
    )
