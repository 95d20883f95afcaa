"""What counts towards a pool's limits (BAT-08, SCH-100). Pure.

A machine on its way out costs money until its instance is gone, and a drain may last: a budget of pods can hold it for
hours. So it counts, or a pool whose drains hang would grow to twice its limit. One of them does not, the largest: its
pods need a place before it can go, and where a budget lets none of them go before others run elsewhere, a pool at its
limit would wait for ever. So a pool exceeds its limits by one machine at most.

A command that replaces machines (drift, consolidation) is let off the machines it replaces instead, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from shared.domain.machines.machine import INSTANCE_TERMINATING, Machine
from shared.domain.resources import Resources, add, at_least

NODES = "nodes"
"""The limit on the number of a pool's nodes (SCH-101)."""


class Counting(msgspec.Struct, frozen=True):
    """Which machines on their way out count."""

    terminating: bool = True
    """False: none, as in Karpenter (LIMITS_COUNT_TERMINATING)."""
    lets_one_go: bool = True
    """All but the largest."""


USUAL = Counting()


def replacing(counting: Counting) -> Counting:
    """For a command: what it replaces is not in the sum, and nothing else is let off."""
    return replace(counting, lets_one_go=False)


def still_costs(machine: Machine) -> bool:
    """Is it on its way out, and its instance is not?"""
    leaves = machine.terminating and bool(machine.provider_id)
    return leaves and not machine.has(INSTANCE_TERMINATING)


def usage(sizes: Iterable[tuple[Machine, Resources]], counting: Counting = USUAL) -> dict[str, int]:
    """Used of each resource, the number of nodes among them, by the machines of one pool and what each has."""
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
