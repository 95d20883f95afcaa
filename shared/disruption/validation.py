"""Validates a command after its delay (CON-11, DIS-31).

The machines must still be candidates within their budgets, and a new simulation must have the same result. An emptiness
command keeps its valid part; a command of Karpenter's consolidation is dropped as a whole. Global commands: see
``global_validation``. Drift and expiration are validated only after they waited for an approval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from msgspec.structs import replace

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.proof import METHOD as GLOBAL
from shared.disruption.global_consolidation.proof import price_of
from shared.disruption.global_consolidation.validation import revalidate
from shared.disruption.methods import drift, emptiness, expiration, static_drift
from shared.disruption.methods.consolidation import eligible
from shared.disruption.records import (
    BUDGET,
    CHURN,
    SCHEDULING,
    Candidate,
    Command,
    Proposal,
    Verdict,
    World,
    within_budgets,
)
from shared.disruption.replacement_price import total_price
from shared.disruption.simulation import simulate_one_machine
from shared.domain import labels as keys
from shared.domain.requirements import Requirements
from shared.solver.plan import PlannedMachine

PROPOSED_AGAIN: Mapping[str, Callable[[World, Set[str]], Proposal]] = {
    drift.METHOD: drift.propose,
    static_drift.METHOD: static_drift.propose,
    expiration.METHOD: expiration.propose,
}
"""Methods whose commands replace one machine, whatever that costs."""


def validate(world: World, command: Command, churn: Churn | None = None) -> Verdict:
    """The command as it may be carried out now, or why not. ``churn``: limits for global commands."""
    if command.method == emptiness.METHOD:
        return _emptiness(world, command)
    if command.method == GLOBAL:
        return revalidate(world, command, churn or Churn())
    if command.method in PROPOSED_AGAIN:
        return _proposed_again(world, command)
    fresh = _fresh(command, {c.machine.uid: c for c in eligible(world)[0]})
    if fresh is None:
        return Verdict(None, CHURN, "a node is no longer a candidate")
    if len(within_budgets(fresh, world, command.reason)) < len(fresh):
        return Verdict(None, BUDGET, "a budget allows fewer nodes by now")
    if command.replacements and not _still_saves(command, fresh):
        return Verdict(None, CHURN, "prices have changed: it saves nothing by now")
    if refusal := world.keeping.refusal(fresh, command.replacements):
        return Verdict(None, CHURN, refusal)
    # Last, because it costs by far the most.
    outcome = simulate_one_machine(world, fresh)
    if problem := outcome.problem or _other_machines(outcome.machines, command):
        return Verdict(None, SCHEDULING, problem)
    return Verdict(replace(command, candidates=fresh, targets=outcome.targets))


def _proposed_again(world: World, command: Command) -> Verdict:
    """The command as its method proposes it now, for the same machines."""
    fresh = _fresh(command, {c.machine.uid: c for c in world.candidates})
    if fresh is None:
        return Verdict(None, CHURN, "a node is no longer a candidate")
    if len(within_budgets(fresh, world, command.reason)) < len(fresh):
        return Verdict(None, BUDGET, "a budget allows fewer nodes by now")
    found = PROPOSED_AGAIN[command.method](world, {c.machine.uid for c in fresh})
    if not found.commands:
        why = [rejection.text for rejection in found.rejections]
        return Verdict(None, SCHEDULING, why[0] if why else f"it is not {command.reason} any more")
    (now,) = found.commands
    if problem := _other_machines(now.replacements, command):
        return Verdict(None, SCHEDULING, problem)
    return Verdict(now)


def _other_machines(machines: tuple[PlannedMachine, ...], command: Command) -> str:
    """How the machines that are needed now differ from the command's; empty: they do not."""
    if len(machines) != len(command.replacements):
        return f"{len(machines)} new machine(s) are needed by now, not {len(command.replacements)}"
    if not all(map(_covers, machines, command.replacements)):
        return "the instance types that would do have changed"
    return ""


def _still_saves(command: Command, fresh: tuple[Candidate, ...]) -> bool:
    """Does the command still save money at current prices? Unknown prices count as yes."""
    old = total_price(fresh)
    return old is None or price_of(command.replacements) < old


def _covers(now: PlannedMachine, before: PlannedMachine) -> bool:
    """Does the new plan allow the old one's pool, types and zones? (CON-11)"""
    if now.pool_key != before.pool_key:
        return False
    zone, was = (Requirements.of(m.requirements).get(keys.ZONE) for m in (now, before))
    return set(before.instance_types) <= set(now.instance_types) and (
        zone is None or (was is not None and zone.covers(was))
    )


def _emptiness(world: World, command: Command) -> Verdict:
    now_empty = {
        c.machine.uid: c
        for c in world.candidates
        if c.empty
        and not (c.blocker or c.pool.key in world.delayed)
        and emptiness.time_is_up(c, now=world.now)
    }
    still = [now_empty[c.machine.uid] for c in command.candidates if c.machine.uid in now_empty]
    spare, _ = world.keeping.spare(still)
    kept = within_budgets(spare, world, command.reason)
    if kept:
        return Verdict(replace(command, candidates=kept))
    if still and not spare:
        return Verdict(None, CHURN, world.keeping.refusal(still[:1]))
    if still:
        return Verdict(None, BUDGET, "the budgets allow none by now")
    return Verdict(None, CHURN, "no node is empty any more")


def _fresh(command: Command, current: dict[str, Candidate]) -> tuple[Candidate, ...] | None:
    """The command's machines as they are now; None when one is no longer a candidate."""
    found = []
    for candidate in command.candidates:
        now = current.get(candidate.machine.uid)
        if now is None:
            return None
        found.append(now)
    return tuple(found)
