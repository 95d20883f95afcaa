"""The usage that counts towards a pool's limits (BAT-08, SCH-100). Pure.

A terminating machine costs money until its instance is terminated, and a PodDisruptionBudget can block its drain for
hours. So it counts; otherwise a pool with blocked drains could grow to twice its limit. The largest terminating machine
does not count: its pods need capacity elsewhere before it can terminate, and if a budget requires replacements before
evictions, a pool at its limit would wait forever. So a pool exceeds its limits by at most one machine.

For a command that replaces machines (drift, consolidation), the replaced machines are excluded instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

import msgspec
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_types.shortages import MOST_SPREAD
from shared.domain.machines.machine import INSTANCE_TERMINATING, Machine
from shared.domain.pools.nodepools import NodeClass
from shared.domain.resources import Resources, add, at_least

NODES = "nodes"
"""The limit on the number of a pool's nodes (SCH-101)."""


class Counting(msgspec.Struct, frozen=True):
    """Which terminating machines count towards the limits."""

    terminating: bool = True
    """False: none, as in Karpenter (LIMITS_COUNT_TERMINATING)."""
    lets_one_go: bool = True
    """Whether the largest one is excluded."""


USUAL = Counting()


def replacing(counting: Counting) -> Counting:
    """``counting`` for a command: the caller leaves out the replaced machines, and all others count."""
    return replace(counting, lets_one_go=False)


def still_costs(machine: Machine) -> bool:
    """Whether the machine is terminating while its instance still runs."""
    leaves = machine.terminating and bool(machine.provider_id)
    return leaves and not machine.has(INSTANCE_TERMINATING)


def usage(sizes: Iterable[tuple[Machine, Resources]], counting: Counting = USUAL) -> dict[str, int]:
    """The usage per resource, including NODES, of the machines of one pool with their sizes."""
    used: dict[str, int] = {}
    largest: dict[str, int] = {}
    for machine, size in sizes:
        whole = {**size, NODES: 1}
        if not machine.terminating:
            used = add(used, whole)
        elif counting.terminating and still_costs(machine):
            used, largest = add(used, whole), at_least(largest, whole)
    if not counting.lets_one_go:
        return used
    return {name: amount - largest.get(name, 0) for name, amount in used.items()}


def full_zones(node_class: NodeClass, machines: Iterable[Machine]) -> frozenset[str]:
    """Zones in which a spread placement group has as many instances as EC2 allows. The instance of a terminating
    machine counts: it is in the group until it is gone."""
    if not node_class.spreads:
        return frozenset()
    there = _by_zone(node_class, machines)
    return frozenset(zone for zone, count in there.items() if zone and count >= MOST_SPREAD)


def spread_room(
    node_class: NodeClass, machines: Collection[Machine], zones: Iterable[str]
) -> int | None:
    """How many more machines these zones take of the class's spread placement group; None without one. Machines of the
    class that wait for their instance have no zone yet, and count."""
    if not node_class.spreads:
        return None
    there = _by_zone(node_class, machines)
    waiting = sum(
        one.node_class_key == node_class.key and not one.provider_id and not one.terminating
        for one in machines
    )
    return max(0, sum(max(0, MOST_SPREAD - there[zone]) for zone in zones) - waiting)


def _by_zone(node_class: NodeClass, machines: Iterable[Machine]) -> Counter[str]:
    """Zone -> instances of its placement group."""
    group = node_class.placement_group_id
    return Counter(
        machine.labels.get(keys.ZONE, "")
        for machine in machines
        if machine.labels.get(keys.PLACEMENT_GROUP) == group
    )
