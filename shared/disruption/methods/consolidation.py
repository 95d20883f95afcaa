"""Karpenter's consolidation: delete a machine whose pods fit elsewhere, or replace it by a cheaper one (CON-01..14).

``compute`` decides about a given set of machines; ``single_node`` and ``multi_node`` choose the sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from shared.disruption import records
from shared.disruption.replacement_price import (
    cheaper,
    never_cheaper,
    total_price,
    without_types_from,
)
from shared.disruption.simulation import simulate_one_machine, uninitialized
from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import CONSOLIDATABLE
from shared.domain.pools.nodepools import BALANCED, UNDERUTILIZED, WHEN_EMPTY
from shared.domain.workloads.kept import Known
from shared.solver.plan import PlannedMachine

NEEDED_LABELS = (keys.INSTANCE_TYPE, keys.CAPACITY_TYPE, keys.ZONE)
IS_STATIC = "is static"
DO_NOT_CONSOLIDATE = f'consolidation is blocked through the "{keys.DO_NOT_CONSOLIDATE}" annotation'

HIGHEST_SCORE = 10.0
"""The highest score that is reported: for a pool whose machines cost nothing the score would be infinite."""


def eligible(
    world: records.World,
) -> tuple[tuple[records.Candidate, ...], tuple[records.Rejection, ...]]:
    """(candidates for consolidation, rejections of the others) (CON-01).

    Empty machines, which have a method of their own, and machines whose consolidateAfter has not passed are in neither.
    Machines of pools with a delay that runs are rejected.
    """
    catalogue = world.snapshot.catalogue
    types = {kind.name for kind in catalogue.types}
    _verdicts.forget_gone(len(world.candidates))
    kept, rejections = [], []
    for candidate in world.candidates:
        known = _verdicts.get(candidate.name)
        if known is None or known[0] is not candidate or known[1] is not catalogue.types:
            known = candidate, catalogue.types, _why_not(candidate, types)
            _verdicts[candidate.name] = known
        event, text = known[2]
        if text:
            pod = candidate.blocking_pod if event == records.BLOCKED else ""
            rejections.append(candidate.refused(text, event=event, reason=UNDERUTILIZED, pod=pod))
        elif candidate.empty:
            continue
        elif why := world.delayed.get(candidate.pool.key):
            rejections.append(candidate.delayed(why, UNDERUTILIZED))
        elif _has_settled(candidate):
            kept.append(candidate)
    return tuple(kept), tuple(rejections)


_verdicts = Known[
    str, tuple[records.Candidate, tuple[InstanceType, ...], tuple[records.EventReason, str]]
]()
"""Name of a machine -> its verdict, with the candidate and the catalogue that were judged."""


def by_savings_ratio(candidates: Iterable[records.Candidate]) -> list[records.Candidate]:
    """Candidates by price per disruption cost, highest first (CON-02, as in Karpenter v1.14)."""
    return sorted(candidates, key=lambda c: (-(c.price_micro_usd_per_hour or 0) / c.cost, c.name))


def compute(
    world: records.World, candidates: tuple[records.Candidate, ...], method: str
) -> records.Command | str:
    """The command that removes these machines (CON-03..08), or the reason why there is none."""
    # Most removals save nothing, and of most of these the bounds know it in a hundredth of the time of a plan.
    old = total_price(candidates)
    if old and world.bounds.costs(world.snapshot, candidates, old):
        return never_cheaper(world, candidates)
    if not world.solver.default_spread and (
        name := world.bounds.unready(world.snapshot, candidates)
    ):
        return uninitialized(name)
    return by_simulation(world, candidates, method)


def by_simulation(
    world: records.World, candidates: tuple[records.Candidate, ...], method: str
) -> records.Command | str:
    """As ``compute``, without a look at the bounds."""
    outcome = simulate_one_machine(world, candidates)
    if outcome.problem:
        return outcome.problem
    if len(outcome.machines) > 1:
        return f"Can't remove without creating {len(outcome.machines)} candidates"
    old = total_price(candidates)
    if not outcome.machines:
        return _command(world, method, candidates, (), outcome.targets, old or 0)
    if old is None:
        return "the price of the node is not known"
    replacement = cheaper(world, outcome.machines[0], candidates)
    if not isinstance(replacement, str) and len(candidates) > 1:
        replacement = without_types_from(replacement, candidates, world)
    if isinstance(replacement, str):
        return replacement
    saving = old - replacement.offering.price_micro_usd_per_hour
    return _command(world, method, candidates, (replacement,), outcome.targets, saving)


def unconsolidatable(candidate: records.Candidate, text: str) -> records.Rejection:
    """A rejection that becomes an Unconsolidatable event; the scheduler repeats it every 15 minutes at most."""
    return candidate.refused(text, event=records.UNCONSOLIDATABLE, reason=UNDERUTILIZED)


def is_balanced(world: records.World, command: records.Command) -> bool:
    """Is the saved share of each Balanced pool's cost at least half the share of its disruption cost? (CON-12)

    The scores are appended to ``world.balanced_scores``.
    """
    for pool_key, members in _by_pool(command.candidates).items():
        if members[0].pool.consolidation_policy != BALANCED:
            continue
        whole = [c for c in world.candidates if c.machine.pool_key == pool_key]
        gain = command.saving_micro_usd_per_hour * sum(c.cost for c in whole)
        price = sum(c.price_micro_usd_per_hour or 0 for c in whole) * sum(c.cost for c in members)
        approved = 2 * gain >= price
        score = gain / price if price else HIGHEST_SCORE * approved
        shown = min(max(score, 0.0), HIGHEST_SCORE)
        world.balanced_scores.append(records.BalancedScore(members[0].pool.name, shown, approved))
        if not approved:
            return False
    return True


def _command(
    world: records.World,
    method: str,
    candidates: tuple[records.Candidate, ...],
    replacements: tuple[PlannedMachine, ...],
    targets: tuple[str, ...],
    saving: int,
) -> records.Command | str:
    if refusal := world.keeping.refusal(candidates, replacements):
        return refusal
    moved = sum(len(candidate.pods) for candidate in candidates)
    verb = "replace" if replacements else "delete"
    text = f"{verb} {len(candidates)} node(s), {records.effect(moved, saving)}"
    command = records.Command(
        method, UNDERUTILIZED, candidates, replacements, targets, saving, moved, text
    )
    too_little = "saves too little for what it disrupts (Balanced)"
    return command if is_balanced(world, command) else too_little


def _by_pool(candidates: Iterable[records.Candidate]) -> dict[str, list[records.Candidate]]:
    found: dict[str, list[records.Candidate]] = defaultdict(list)
    for candidate in candidates:
        found[candidate.machine.pool_key].append(candidate)
    return found


def _has_settled(candidate: records.Candidate) -> bool:
    """Has consolidateAfter passed? (DIS-20) v1alpha5 has no such wait."""
    return not candidate.pool.api.waits_until_consolidatable or candidate.machine.has(
        CONSOLIDATABLE
    )


def _why_not(candidate: records.Candidate, types: set[str]) -> tuple[records.EventReason, str]:
    """(event, reason) of a rejection; an empty reason means eligible."""
    pool, labels = candidate.pool, candidate.node.labels
    if pool.is_static:
        return records.UNCONSOLIDATABLE, f'{pool.kind} "{pool.name}" {IS_STATIC}'
    if pool.consolidate_after_seconds is None:
        return records.UNCONSOLIDATABLE, f'{pool.kind} "{pool.name}" has consolidation disabled'
    if pool.consolidation_policy == WHEN_EMPTY:
        text = (
            f'{pool.kind} "{pool.name}" has consolidation policy WhenEmpty, but node is not empty'
        )
        return records.UNCONSOLIDATABLE, "" if candidate.empty else text
    if candidate.too_used and not candidate.empty:
        return records.UNCONSOLIDATABLE, candidate.too_used
    if candidate.node.annotations.get(keys.DO_NOT_CONSOLIDATE) == "true":
        return records.BLOCKED, DO_NOT_CONSOLIDATE
    for key in NEEDED_LABELS:
        if not labels.get(key):
            return records.UNCONSOLIDATABLE, f'Node does not have label "{key}"'
    if labels[keys.INSTANCE_TYPE] not in types:
        return records.UNCONSOLIDATABLE, f'Instance Type "{labels[keys.INSTANCE_TYPE]}" not found'
    return records.BLOCKED, candidate.blocker
