"""The capacity that a pool keeps: its minimum, and its headroom. Pure.

The minimum counts what ``spec.limits`` counts, the capacity of the pool's machines. Headroom is what pods may still
request on them. Machines that terminate or are being replaced do not count. A machine that is not launched yet counts
with the smallest of the types that it may become.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.pools.hours import holds_at
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES
from shared.domain.pools.windows import PERCENT_OF, KeptCapacity
from shared.domain.resources import Resources, add, at_least, round_amount, subtract
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod

NOTHING: Resources = MappingProxyType({})
Types = Mapping[str, InstanceType]
"""Instance types by name."""


class Holding(NamedTuple):
    """What a pool has: sums over its machines that stay."""

    capacity: Resources = NOTHING
    """With the number of nodes."""
    allocatable: Resources = NOTHING
    requested: Resources = NOTHING
    """By all pods, daemons included."""
    by_daemons: Resources = NOTHING

    def plus(self, other: Holding) -> Holding:
        """Both together."""
        return Holding(*(add(mine, its) for mine, its in zip(self, other, strict=True)))

    def minus(self, other: Holding) -> Holding:
        """This without the other."""
        return Holding(*(subtract(mine, its) for mine, its in zip(self, other, strict=True)))


class Lacking(NamedTuple):
    """What a pool is short of. ``amounts``: cpu and memory, each above zero."""

    nodes: int
    amounts: dict[str, int]

    def __bool__(self) -> bool:
        return self.nodes > 0 or bool(self.amounts)

    def __str__(self) -> str:
        parts = [
            f"{round_amount(name, self.amounts[name])} {name}" for name in sorted(self.amounts)
        ]
        if self.nodes:
            parts.append(f"{self.nodes} node" + ("" if self.nodes == 1 else "s"))
        return ", ".join(parts)


def keeps_capacity(pool: NodePool) -> bool:
    """Does the pool have a minimum or headroom at any time?"""
    return bool(pool.minimum or pool.headroom) and not pool.is_static and not pool.terminating


def lacking(pool: NodePool, holding: Holding, *, now: float) -> Lacking:
    """What the pool is short of at ``now``, in seconds since the epoch. A closed pool keeps nothing."""
    if not keeps_capacity(pool) or pool.closed:
        return Lacking(0, {})
    short = subtract(required_minimum(pool, now=now), holding.capacity)
    free = subtract(holding.allocatable, holding.requested)
    spare = subtract(required_headroom(pool, holding, now=now), free)
    most = at_least(short, {**spare, NODES: 0})
    wanted = {*required_minimum(pool, now=now), *required_headroom(pool, holding, now=now)}
    amounts = {name: most[name] for name in sorted(wanted - {NODES}) if most.get(name, 0) > 0}
    return Lacking(max(0, short.get(NODES, 0)) if NODES in wanted else 0, amounts)


def required_minimum(pool: NodePool, *, now: float) -> dict[str, int]:
    """Of entries that hold at ``now`` the largest, resource by resource."""
    found: dict[str, int] = {}
    for entry in _active(pool.minimum, now):
        found = at_least(found, entry.amounts)
    return found


def required_headroom(pool: NodePool, holding: Holding, *, now: float) -> dict[str, int]:
    """What must be free. A percentage is of what pods request that are no daemons, rounded up."""
    used = subtract(holding.requested, holding.by_daemons)
    found: dict[str, int] = {}
    for entry in _active(pool.headroom, now):
        share = {name: -(-used.get(name, 0) * entry.percent // 100) for name in PERCENT_OF}
        found = at_least(found, {**(share if entry.percent else {}), **entry.amounts})
    return found


def holdings(snapshot: Snapshot, pool_keys: Set[str], leaving: Set[str]) -> dict[str, Holding]:
    """Pool key -> what the pool has. ``leaving``: UIDs of machines that a command takes away."""
    staying = [
        m
        for m in snapshot.machines
        if m.pool_key in pool_keys and not m.terminating and m.uid not in leaving
    ]
    names = {machine.node_name for machine in staying if machine.node_name}
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node_name in names:
            pods.setdefault(pod.node_name, []).append(pod)
    types = {kind.name: kind for kind in snapshot.catalogue.types}
    found = {key: Holding() for key in pool_keys}
    for machine in staying:
        one = holding_of(machine, pods.get(machine.node_name, []), types)
        found[machine.pool_key] = found[machine.pool_key].plus(one)
    return found


def holding_of(machine: Machine, pods: Iterable[Pod], types: Types) -> Holding:
    """What one machine adds. Until it is initialized, pods that it was bought for count as if they ran."""
    daemons = []
    bound: dict[str, int] = {}
    for pod in pods:
        bound = add(bound, pod.requests)
        if pod.is_daemon:
            daemons.append(pod.requests)
    if not machine.has(INITIALIZED):
        bound = at_least(bound, machine.requests)
    capacity, allocatable = size_of(machine, types)
    return Holding({**capacity, NODES: 1}, allocatable, bound, add(*daemons))


def size_of(machine: Machine, types: Types) -> tuple[Resources, Resources]:
    """(capacity, allocatable) of a machine."""
    if machine.capacity:
        return machine.capacity, machine.allocatable or machine.capacity
    names = [machine.instance_type] if machine.instance_type else []
    for one in machine.requirements:
        if one.key == keys.INSTANCE_TYPE and one.operator == "In":
            names.extend(one.values)
    return smallest(names, types)


def smallest(names: Iterable[str], types: Types) -> tuple[dict[str, int], dict[str, int]]:
    """(capacity, allocatable) that each of these types has at least."""
    known = [types[name] for name in names if name in types]
    return _least([k.capacity for k in known]), _least([k.allocatable() for k in known])


def _least(amounts: list[dict[str, int]]) -> dict[str, int]:
    shared = set(amounts[0]).intersection(*amounts) if amounts else set()
    return {name: min(one[name] for one in amounts) for name in sorted(shared)}


def _active(entries: tuple[KeptCapacity, ...], now: float) -> Iterable[KeptCapacity]:
    return (entry for entry in entries if holds_at(entry, now))
