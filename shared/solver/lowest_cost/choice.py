"""Chooses the cheaper plan of FewestNodes and LowestCost, and computes the lower bound.

FewestNodes runs first. If a pool uses LowestCost, that policy runs on a fresh copy of the same problem. Its plan is
chosen only if it places every pod that FewestNodes places and costs less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from shared.domain.pools.nodepools import LOWEST_COST
from shared.domain.resources import CPU
from shared.solver.lowest_cost.bound.lower import ignored, lower_bound
from shared.solver.lowest_cost.packing import (
    PackedPlacement,
    PackingSettings,
    uses_lowest_cost,
)
from shared.solver.lowest_cost.room import cost
from shared.solver.lowest_cost.rules import Rules
from shared.solver.placement.fewest_nodes import Placement, Run
from shared.solver.placement.planned_machines import BEST_EFFORT, OpenMachine
from shared.solver.pod_classes import PodClass

_AS_GOOD_AS_OPTIMAL = 1.001


@dataclass(frozen=True)
class Choice:
    """The chosen placement, and the plan's fields about it."""

    placement: Placement
    lower_bound_micro_usd_per_hour: int | None
    relaxed: tuple[str, ...]
    policies: dict[str, str]


class Price(NamedTuple):
    """Placements are compared by these fields, in this order; lower is better."""

    refused: int
    """Pods that wait for a place in a reservation."""
    needlessly_large: int
    """Machines above the size limit without a pod that needs one."""
    micro_usd_per_hour: int


Paid = Callable[[Placement], tuple[int, int]]
"""Placement -> (pods that must wait for a reservation, cost in micro-USD per hour after reservations are assigned)."""


def cheaper(
    fewest: Placement,
    queue: list[Run],
    settings: PackingSettings,
    prepare: Callable[[], tuple[Placement, list[Run]]],
    paid: Paid | None = None,
) -> Choice:
    """The cheaper placement.

    ``fewest``: the result of FewestNodes for ``queue``. ``prepare``: makes the same problem with nothing placed.
    ``paid``: given when there are reservations, for which the bound does not hold.
    """
    rules = Rules(best_effort=fewest.min_values_policy == BEST_EFFORT)
    asked = any(uses_lowest_cost(template, settings) for template in fewest.templates)
    bound = lower_bound(fewest, _on_new_machines(fewest, queue), rules, per_host=asked)
    left_out = ignored(fewest, queue)
    if not asked or (len(_taken(fewest.machines)) < 2 and paid is None):
        return Choice(fewest, bound, left_out, {})
    now = _price(fewest, queue, settings, paid)
    if not _may_gain(now, None if paid else bound):
        return Choice(fewest, bound, left_out, {})
    fresh, runs = prepare()
    packed = PackedPlacement.of(fresh, settings)
    packed.run(runs)
    found = _price(packed, runs, settings, paid)
    if found >= now or not packed.verdicts.keys() <= fewest.verdicts.keys():
        return Choice(fewest, bound, left_out, {})
    if _taken(packed.machines) != _taken(fewest.machines):
        bound = lower_bound(packed, _on_new_machines(packed, runs), rules, per_host=True)
    return Choice(packed, bound, left_out, _policies(packed, settings))


def _may_gain(price: Price, bound: int | None) -> bool:
    """Is the plan far enough from the bound for LowestCost to be worth its time?"""
    if price.needlessly_large or price.refused:
        return True
    if bound is None:
        return price.micro_usd_per_hour > 0
    return price.micro_usd_per_hour > bound * _AS_GOOD_AS_OPTIMAL


def _taken(machines: Iterable[OpenMachine]) -> set[str]:
    return {uid for machine in machines for uid in machine.pods}


def _on_new_machines(placement: Placement, queue: list[Run]) -> list[Run]:
    """The pods on new machines, with all runs of a class joined."""
    taken = _taken(placement.machines)
    found: dict[PodClass, list[str]] = {}
    all_taken = sum(len(uids) for _, uids in queue) == len(taken)
    for pods, uids in queue:
        kept = uids if all_taken else [uid for uid in uids if uid in taken]
        if kept:
            found.setdefault(pods, []).extend(kept)
    return list(found.items())


def _price(
    placement: Placement, queue: list[Run], settings: PackingSettings, paid: Paid | None
) -> Price:
    classes = {uid: pods for pods, uids in queue for uid in uids}
    too_large = sum(_is_too_large(machine, classes, settings) for machine in placement.machines)
    refused, price = paid(placement) if paid else (0, sum(map(cost, placement.machines)))
    return Price(refused, too_large, price)


def _is_too_large(
    machine: OpenMachine, classes: dict[str, PodClass], settings: PackingSettings
) -> bool:
    most = settings.most_node_cpu_milli
    if most is None:
        return False
    types = machine.template.table.types
    if min(types[i].capacity.get(CPU, 0) for i in machine.types.rows) <= most:
        return False
    small = [i for i in machine.template.types if types[i].capacity.get(CPU, 0) <= most]
    room = machine.template.available[small]
    requests = {classes[uid].index: classes[uid].requests for uid in machine.pods}
    return all((room >= request).all(axis=1).any() for request in requests.values())


def _policies(chosen: PackedPlacement, settings: PackingSettings) -> dict[str, str]:
    """Pool key -> policy, for pools whose machines were planned by LowestCost."""
    pools = {c.template.pool.key for c in chosen.machines if uses_lowest_cost(c.template, settings)}
    return dict.fromkeys(sorted(pools), LOWEST_COST)
