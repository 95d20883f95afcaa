"""Chooses the cheaper plan of FewestNodes and LowestCost, and computes the lower bound.

FewestNodes runs first. If a pool uses LowestCost or Balanced, that policy runs on a fresh copy of the same problem. Its
plan is chosen only if it places every pod that FewestNodes places and costs less. Where pools have a price per node,
that is part of the cost here, and what LowestCost packs without it is chosen from too: by this measure no plan is
dearer than those of FewestNodes and LowestCost. The bound is one of the price alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from shared.domain.resources import CPU
from shared.solver.lowest_cost.bound.lower import (
    LowerBound,
    configuration_bound,
    ignored,
    lower_bound,
)
from shared.solver.lowest_cost.packing import (
    PackedPlacement,
    PackingSettings,
    uses_lowest_cost,
)
from shared.solver.lowest_cost.room import cost
from shared.solver.lowest_cost.rules import Rules
from shared.solver.lowest_cost.search import DIVING_EFFORT
from shared.solver.lowest_cost.spread import label_spreads
from shared.solver.placement.fewest_nodes import Placement, Run
from shared.solver.placement.planned_machines import BEST_EFFORT, OpenMachine
from shared.solver.pod_classes import PodClass
from shared.solver.pools.packing_policy import BALANCED_NODE_PRICE, policy_of

_AS_GOOD_AS_OPTIMAL = 1.001
_EFFORTS = (50, 200, 1000, 4000, 16_000, 64_000)
"""A plan costs what the best of these up to the setting finds; each is several times the one before, so all together
take little longer than the last."""

_UNITS, _UNITS_OF_SIMULATIONS = 8000.0, 1200.0
"""What rounding the mix of all pods may take at an effort of 200: with much less, column generation does not end with
hundreds of kinds. Consolidation asks what many removals would need, one after the other, so each gets less."""
_FEW_PODS = 100
"""Plans for at most so many pods are made with the node price of Balanced as well: to pay for machines leads to larger
ones, which are now and then cheaper together. So LowestCost is not dearer there than Balanced."""
_GROWTH = 0.25
"""The power of the effort with which these units grow: what there is to gain shrinks."""


@dataclass(frozen=True)
class Choice:
    """The chosen placement, and the plan's fields about it."""

    placement: Placement
    bound: LowerBound | None
    relaxed: tuple[str, ...]
    policies: dict[str, str]


class Price(NamedTuple):
    """Placements are compared by these fields, in this order; lower is better."""

    refused: int
    """Pods that wait for a place in a reservation."""
    needlessly_large: int
    """Machines above the size limit without a pod that needs one."""
    micro_usd_per_hour: int
    """With the node prices of the pools."""


Paid = Callable[[Placement], tuple[int, int]]
"""Placement -> (pods that must wait for a reservation, cost in micro-USD per hour after reservations are assigned)."""


def cheaper(
    fewest: Placement,
    queue: list[Run],
    settings: PackingSettings,
    prepare: Callable[[], tuple[Placement, list[Run]]],
    paid: Paid | None = None,
    *,
    bounded: bool = True,
) -> Choice:
    """The cheaper placement.

    ``fewest``: the result of FewestNodes for ``queue``. ``prepare``: makes the same problem with nothing placed.
    ``paid``: given when there are reservations, for which the bound does not hold. ``bounded`` False: the choice has
    no bound. LowestCost needs the cheap one all the same, to know when to stop.
    """
    rules = Rules(best_effort=fewest.min_values_policy == BEST_EFFORT)
    asked = any(uses_lowest_cost(template, settings) for template in fewest.templates)
    if not (asked or bounded):
        return Choice(fewest, None, (), {})
    on_new = _on_new_machines(fewest, queue)
    bound = lower_bound(fewest, on_new, rules, per_host=asked)
    left_out = ignored(fewest, queue)
    if not asked:
        return Choice(fewest, bound, left_out, {})
    most = _UNITS if bounded else _UNITS_OF_SIMULATIONS
    few = bounded and sum(len(uids) for _, uids in queue) <= _FEW_PODS
    chosen = _cheapest(fewest, queue, settings, prepare, paid, bound, most, few=few)
    policies = _policies(chosen, settings) if isinstance(chosen, PackedPlacement) else {}
    if not bounded:
        return Choice(chosen, None, (), policies)
    if _taken(chosen.machines) != _taken(fewest.machines):
        on_new = _on_new_machines(chosen, queue)
        bound = lower_bound(chosen, on_new, rules, per_host=True)
    # This goes by FewestNodes' plan, which is the same with every effort.
    if bound and paid is None and _may_gain(_price(fewest, queue, settings, paid), bound):
        bound = configuration_bound(bound, chosen, on_new, rules, settings.effort)
    return Choice(chosen, bound, left_out, policies)


def _cheapest(
    fewest: Placement,
    queue: list[Run],
    settings: PackingSettings,
    prepare: Callable[[], tuple[Placement, list[Run]]],
    paid: Paid | None,
    bound: LowerBound | None,
    units: float,
    *,
    few: bool,
) -> Placement:
    """The cheapest placement of FewestNodes and of LowestCost with each effort up to the setting's.

    A larger effort only adds placements to choose from, so it never makes a plan dearer. None is begun once the plan's
    time is up: the pods wait meanwhile (BAT-07). Where pods are spread over labels other than zones, plans are made
    with planned values of these and without: either may be cheaper.
    """
    best, now = fewest, _price(fewest, queue, settings, paid)
    if len(_taken(fewest.machines)) < 2 and paid is None:
        return best
    has_labels = any(label_spreads(fewest.topology, pods) for pods, _ in queue)
    ways = list(product(_node_prices(fewest, few=few), (False, True)[: 1 + has_labels]))
    for effort in _efforts(settings.effort):
        if fewest.time_is_up() or not _may_gain(now, None if paid else bound):
            break
        for node_price, plans_labels in ways:
            fresh, runs = prepare()
            mine = replace(
                settings,
                effort=effort,
                plans_labels=plans_labels,
                units=_units(units, effort) / (1 if few else len(ways)),
            )
            packed = PackedPlacement.of(fresh, mine)
            _pack(packed, runs, node_price)
            found = _price(packed, runs, settings, paid)
            if found < now and packed.verdicts.keys() <= fewest.verdicts.keys():
                best, now = packed, found
    return best


def _units(at_usual_effort: float, effort: int) -> float:
    """Units of the rounding; 0: the effort is too small for one."""
    return at_usual_effort * (effort / DIVING_EFFORT) ** _GROWTH if effort >= DIVING_EFFORT else 0.0


def _node_prices(fewest: Placement, *, few: bool) -> list[int | None]:
    """The node prices that packings are made with, in micro-USD per hour; None: those of the pools."""
    if any(template.node_price for template in fewest.templates):
        return [None, 0]
    return [None, BALANCED_NODE_PRICE] if few else [None]


def _pack(packed: PackedPlacement, runs: list[Run], node_price: int | None) -> None:
    """Packs with this node price in all pools; None: with their own."""
    node_prices = [template.node_price for template in packed.templates]
    if node_price is not None:
        for template in packed.templates:
            template.node_price = node_price
    packed.run(runs)
    for template, node_price in zip(packed.templates, node_prices, strict=True):
        template.node_price = node_price


def _efforts(most: int) -> list[int]:
    """The efforts that are tried in turn: the same ones for every setting, so far as it reaches."""
    found = [effort for effort in _EFFORTS if effort <= most]
    return found or [_EFFORTS[0]]


def _may_gain(price: Price, bound: LowerBound | None) -> bool:
    """Is the plan far enough from the bound for LowestCost to be worth its time?"""
    if price.needlessly_large or price.refused:
        return True
    if bound is None:
        return price.micro_usd_per_hour > 0
    return price.micro_usd_per_hour > bound.micro_usd_per_hour * _AS_GOOD_AS_OPTIMAL


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
    node_prices = sum(machine.template.node_price for machine in placement.machines)
    return Price(refused, too_large, price + node_prices)


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
    """Pool key -> policy, for pools whose machines were packed."""
    pools = [c.template.pool for c in chosen.machines if uses_lowest_cost(c.template, settings)]
    found = {pool.key: policy_of(pool, settings.policy) for pool in pools}
    return dict(sorted(found.items()))
