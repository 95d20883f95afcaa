"""Emptiness: machines without pods are deleted in one command, within the budgets (DIS-30..34, CON-13)."""

from __future__ import annotations

from shared.concurrency.clock import credible
from shared.disruption import records
from shared.domain.machines.machine import CONSOLIDATABLE
from shared.domain.machines.machine import EMPTY as EMPTY_CONDITION
from shared.domain.pools.nodepools import EMPTY

METHOD = "emptiness"


def propose(world: records.World) -> records.Proposal:
    """One command that deletes the empty machines whose time is up, within the budgets."""
    due: list[records.Candidate] = []
    rejections: list[records.Rejection] = []
    for candidate in world.candidates:
        if not candidate.empty or not time_is_up(candidate, now=world.now):
            continue
        if candidate.blocker:
            rejections.append(candidate.blocked(EMPTY))
        elif why := world.delayed.get(candidate.pool.key):
            rejections.append(candidate.delayed(why, EMPTY))
        else:
            due.append(candidate)
    spare, kept = world.keeping.spare(due)
    rejections += [
        c.refused(kept[c.machine.key], event=records.UNCONSOLIDATABLE, reason=EMPTY)
        for c in due
        if c.machine.key in kept
    ]
    chosen = records.within_budgets(spare, world, EMPTY)
    if not chosen:
        return records.Proposal((), tuple(rejections))
    saving = sum(candidate.price_micro_usd_per_hour or 0 for candidate in chosen)
    text = f"delete {len(chosen)} empty node(s), {records.effect(0, saving)}"
    command = records.Command(METHOD, EMPTY, chosen, saving_micro_usd_per_hour=saving, text=text)
    return records.Proposal((command,), tuple(rejections))


def time_is_up(candidate: records.Candidate, *, now: float) -> bool:
    """Has an empty machine waited long enough?

    v1: consolidateAfter has passed (DIS-30). v1alpha5: ttlSecondsAfterEmpty has passed, or consolidation is enabled,
    which does not wait before validation (DIS-32, CON-13).
    """
    machine, pool = candidate.machine, candidate.pool
    if pool.is_static or pool.consolidate_after_seconds is None:
        return False
    if pool.api.waits_until_consolidatable:
        return machine.has(CONSOLIDATABLE)
    ttl = pool.empty_ttl_seconds
    if ttl is None:
        return True
    empty = machine.conditions.get(EMPTY_CONDITION)
    if empty is None or not machine.has(EMPTY_CONDITION):
        return False
    return now - credible(empty.since, now=now, otherwise=machine.created_at) >= ttl
