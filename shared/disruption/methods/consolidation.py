"""Consolidation as Karpenter does it: delete a machine whose pods fit elsewhere, or buy one cheaper (CON-01..14).

``compute`` answers for a given set of machines; ``single_node`` and ``multi_node`` choose the sets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from shared.disruption.records import (
    BLOCKED,
    UNCONSOLIDATABLE,
    Candidate,
    Command,
    Rejection,
    Weighed,
    World,
    effect,
)
from shared.disruption.replacement_price import cheaper, total_price, without_types_from
from shared.disruption.simulation import simulate
from shared.domain import labels as keys
from shared.domain.machines.machine import CONSOLIDATABLE
from shared.domain.pools.nodepools import BALANCED, UNDERUTILIZED, WHEN_EMPTY
from shared.solver.plan import PlannedMachine

NEEDED_LABELS = (keys.INSTANCE_TYPE, keys.CAPACITY_TYPE, keys.ZONE)
DO_NOT_CONSOLIDATE = f'consolidation is blocked through the "{keys.DO_NOT_CONSOLIDATE}" annotation'

HIGHEST_SCORE = 10.0
"""What a score is told as at most: of a pool whose machines cost nothing it would have no end."""


def eligible(world: World) -> tuple[tuple[Candidate, ...], tuple[Rejection, ...]]:
    """CON-01: the machines that consolidation may look at, and why not the others. Empty ones have their own method;
    one whose consolidateAfter still runs is neither."""
    types = {kind.name for kind in world.snapshot.catalogue.types}
    kept, rejections = [], []
    for candidate in world.candidates:
        event, text = _why_not(candidate, types)
        if text:
            pod = candidate.blocking_pod if event == BLOCKED else ""
            rejections.append(candidate.refused(text, event=event, reason=UNDERUTILIZED, pod=pod))
        elif not candidate.empty and _has_settled(candidate):
            kept.append(candidate)
    return tuple(kept), tuple(rejections)


def by_worth(candidates: Iterable[Candidate]) -> list[Candidate]:
    """CON-02 (v1.14): most money per disruption first."""
    return sorted(candidates, key=lambda c: (-(c.price_micro_usd_per_hour or 0) / c.cost, c.name))


def compute(world: World, candidates: tuple[Candidate, ...], method: str) -> Command | str:
    """The command that takes these away (CON-03..08), or why it is not worth it or impossible."""
    outcome = simulate(world, candidates, consolidating=True)
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


def unconsolidatable(candidate: Candidate, text: str) -> Rejection:
    """For an Event with 15 minutes of de-duplication."""
    return candidate.refused(text, event=UNCONSOLIDATABLE, reason=UNDERUTILIZED)


def is_balanced(world: World, command: Command) -> bool:
    """CON-12: in every pool with the policy Balanced, the share of its cost that is saved is at least half the share of
    its disruption that is paid."""
    for pool_key, members in _by_pool(command.candidates).items():
        if members[0].pool.consolidation_policy != BALANCED:
            continue
        whole = [c for c in world.candidates if c.machine.pool_key == pool_key]
        gain = command.saving_micro_usd_per_hour * sum(c.cost for c in whole)
        price = sum(c.price_micro_usd_per_hour or 0 for c in whole) * sum(c.cost for c in members)
        approved = 2 * gain >= price
        score = gain / price if price else HIGHEST_SCORE * approved
        told = min(max(score, 0.0), HIGHEST_SCORE)
        world.weighed.append(Weighed(members[0].pool.name, told, approved))
        if not approved:
            return False
    return True


def _command(
    world: World,
    method: str,
    candidates: tuple[Candidate, ...],
    replacements: tuple[PlannedMachine, ...],
    targets: tuple[str, ...],
    saving: int,
) -> Command | str:
    moved = sum(len(candidate.pods) for candidate in candidates)
    verb = "replace" if replacements else "delete"
    text = f"{verb} {len(candidates)} node(s), {effect(moved, saving)}"
    command = Command(method, UNDERUTILIZED, candidates, replacements, targets, saving, moved, text)
    return (
        command
        if is_balanced(world, command)
        else "saves too little for what it disrupts (Balanced)"
    )


def _by_pool(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    found: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        found[candidate.machine.pool_key].append(candidate)
    return found


def _has_settled(candidate: Candidate) -> bool:
    """DIS-20; v1alpha5 has no such wait."""
    return not candidate.pool.api.waits_until_consolidatable or candidate.machine.has(
        CONSOLIDATABLE
    )


def _why_not(candidate: Candidate, types: set[str]) -> tuple[str, str]:
    """(event, text); empty text: it is eligible."""
    pool, labels = candidate.pool, candidate.node.labels
    if pool.is_static:
        return UNCONSOLIDATABLE, f'{pool.kind} "{pool.name}" is static'
    if pool.consolidate_after_seconds is None:
        return UNCONSOLIDATABLE, f'{pool.kind} "{pool.name}" has consolidation disabled'
    if pool.consolidation_policy == WHEN_EMPTY:
        if candidate.empty:
            return "", ""
        return (
            UNCONSOLIDATABLE,
            f'{pool.kind} "{pool.name}" has consolidation policy WhenEmpty, but node is not empty',
        )
    if candidate.node.annotations.get(keys.DO_NOT_CONSOLIDATE) == "true":
        return BLOCKED, DO_NOT_CONSOLIDATE
    for key in NEEDED_LABELS:
        if not labels.get(key):
            return UNCONSOLIDATABLE, f'Node does not have label "{key}"'
    if labels[keys.INSTANCE_TYPE] not in types:
        return UNCONSOLIDATABLE, f'Instance Type "{labels[keys.INSTANCE_TYPE]}" not found'
    return (BLOCKED, candidate.blocker) if candidate.blocker else ("", "")
