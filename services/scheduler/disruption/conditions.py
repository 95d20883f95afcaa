"""Conditions that say how far a machine is from being disrupted: pure (DIS-20, DIS-32, DIS-33, M-03).

They are kept on the machine so that a restart of the scheduler does not start a clock anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import msgspec

from shared.concurrency.clock import credible
from shared.domain.machines.machine import CONSOLIDATABLE, EMPTY, EXPIRED, INITIALIZED, Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.pods import Pod, is_reschedulable


class ConditionChange(msgspec.Struct, frozen=True):
    machine: Machine
    condition: str
    is_true: bool


def occupied_nodes(pods: Iterable[Pod]) -> set[str]:
    """Nodes that hold a pod which counts: no daemon, no mirror, not finished (DIS-16). A terminating one counts."""
    return {
        pod.node_name
        for pod in pods
        if pod.node_name and (is_reschedulable(pod) or _is_terminating(pod))
    }


def asks_for_occupied_nodes(pool: NodePool) -> bool:
    """Whether ``due`` uses them for this pool's machines: to find them is work in proportion to all pods."""
    return not pool.api.waits_until_consolidatable


def due(
    machines: Iterable[Machine],
    pools: Mapping[str, NodePool],
    occupied: Set[str],
    nominated: Set[str],
    *,
    now: float,
) -> list[ConditionChange]:
    """What to write now. ``pools`` by key; ``occupied`` and ``nominated``: names of nodes (and machines)."""
    found = []
    for machine in machines:
        pool = pools.get(machine.pool_key)
        if pool is None or machine.terminating:
            continue
        if pool.api.waits_until_consolidatable:
            desired = {CONSOLIDATABLE: is_consolidatable(machine, pool, now=now)}
        else:
            busy = machine.node_name in occupied or bool(
                {machine.node_name, machine.name} & nominated
            )
            ttl, age = pool.expire_seconds, now - machine.created_at
            desired = {
                EMPTY: pool.empty_ttl_seconds is not None and machine.has(INITIALIZED) and not busy,
                EXPIRED: ttl is not None and age >= ttl,
            }
        found += [
            ConditionChange(machine, c, want)
            for c, want in desired.items()
            if want != machine.has(c)
        ]
    return found


def next_due(machines: Iterable[Machine], pools: Mapping[str, NodePool], *, now: float) -> float:
    """When ``due`` may find something new, or a v1 machine expires, if nothing changes until then; infinite for never.
    Never too late."""
    times = (at for machine in machines for at in _times(machine, pools.get(machine.pool_key)))
    return min((at for at in times if at > now), default=float("inf"))


def _times(machine: Machine, pool: NodePool | None) -> Iterator[float]:
    """Moments from which on a condition of the machine may be another one."""
    expiries = [machine.expire_seconds, pool.expire_seconds if pool else None]
    yield from (machine.created_at + one for one in expiries if one is not None)
    initialized = machine.conditions.get(INITIALIZED)
    for at in (machine.last_pod_event_at, machine.created_at, initialized and initialized.since):
        if at:
            yield at
            if pool is not None and pool.consolidate_after_seconds is not None:
                yield at + pool.consolidate_after_seconds


def is_consolidatable(machine: Machine, pool: NodePool, *, now: float) -> bool:
    """DIS-20: consolidateAfter has passed since the last pod came or went, and since initialisation."""
    after = pool.consolidate_after_seconds
    if after is None or not machine.has(INITIALIZED):
        return False
    times = (machine.last_pod_event_at, machine.conditions[INITIALIZED].since)
    quiet_since = max(credible(at, now=now, otherwise=machine.created_at) for at in times)
    return now - quiet_since >= after


def _is_terminating(pod: Pod) -> bool:
    return pod.terminating and not pod.is_daemon and not pod.is_mirror and not pod.is_terminal
