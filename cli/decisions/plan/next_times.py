"""When something may change although nothing happens: a wait ends, a budget begins or ends. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cli.decisions.plan.rules import Rules
from shared.domain.machines.machine import EMPTY, INITIALIZED, Machine
from shared.domain.pools.budgets import boundaries
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot


def next_times(snapshot: Snapshot, rules: Rules, now: float) -> Iterator[float]:
    """Times after ``now``, in seconds since the epoch, in no order."""
    pools = {pool.key: pool for pool in snapshot.pools}
    used = {machine.pool_key for machine in snapshot.machines}
    for machine in snapshot.machines:
        pool = pools.get(machine.pool_key)
        if pool is not None:
            yield from (at for at in _waits(machine, pool, rules) if at > now)
    for pool in snapshot.pools:
        if pool.key in used:
            for budget in pool.budgets:
                yield from boundaries(budget, now)


def _waits(machine: Machine, pool: NodePool, rules: Rules) -> Iterator[float]:
    """Until it may be consolidated, its time without pods is up, or it has rested."""
    initialized = machine.conditions.get(INITIALIZED)
    if initialized is None:
        return
    yield initialized.since + rules.churn.rest_seconds
    after = pool.consolidate_after_seconds
    if after is None:
        return
    if pool.api.waits_until_consolidatable:
        yield max(machine.last_pod_event_at, initialized.since) + after
    elif (empty := machine.conditions.get(EMPTY)) is not None:
        yield empty.since + after
