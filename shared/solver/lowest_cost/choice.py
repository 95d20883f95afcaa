"""The cheaper of FewestNodes and LowestCost, and how far both are from what is possible.

FewestNodes' plan is there first. LowestCost is tried on a fresh copy of the same problem where some
pool asks for it, and wins only if it places every pod that FewestNodes places, for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from shared.domain.resources import CPU
from shared.solver.lowest_cost.bound.lower import ignored, lower_bound
from shared.solver.lowest_cost.packing import (
    LOWEST_COST,
    PackedPlacement,
    PackingSettings,
    packs,
)
from shared.solver.lowest_cost.room import cost
from shared.solver.lowest_cost.rules import Rules
from shared.solver.placement.fewest_nodes import BEST_EFFORT, Placement, Run
from shared.solver.placement.planned_machines import OpenClaim
from shared.solver.pod_classes import PodClass

_AS_GOOD_AS_OPTIMAL = 1.001


@dataclass(frozen=True)
class Choice:
    """The placement to use, and what the plan says about it."""

    placement: Placement
    lower_bound_micro_usd_per_hour: int | None
    relaxed: tuple[str, ...]
    policies: dict[str, str]


class Price(NamedTuple):
    """What a placement is compared by."""

    refused: int
    """Pods that wait for a place in a reservation."""
    needlessly_large: int
    """Machines above the allowed size without a pod that needs one."""
    micro_usd_per_hour: int


Paid = Callable[[Placement], tuple[int, int]]
"""Pods that must wait for a reservation, and what the machines cost when places in reservations are given out."""


def cheaper(
    fewest: Placement,
    queue: list[Run],
    settings: PackingSettings,
    prepare: Callable[[], tuple[Placement, list[Run]]],
    paid: Paid | None = None,
) -> Choice:
    """``fewest``: FewestNodes' result for ``queue``. ``prepare`` gives the same problem, untouched. ``paid``: where
    there are reservations, for which the bound does not hold.
    """
    rules = Rules(best_effort=fewest.min_values_policy == BEST_EFFORT)
    asked = any(packs(template, settings) for template in fewest.templates)
    bound = lower_bound(fewest, _on_new_machines(fewest, queue), rules, per_host=asked)
    left_out = ignored(fewest, queue)
    if not asked or (len(_taken(fewest.claims)) < 2 and paid is None):
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
    if _taken(packed.claims) != _taken(fewest.claims):
        bound = lower_bound(packed, _on_new_machines(packed, runs), rules, per_host=True)
    return Choice(packed, bound, left_out, _policies(packed, settings))


def _may_gain(price: Price, bound: int | None) -> bool:
    """Is the plan further from the bound than what is not worth the work?"""
    if price.needlessly_large or price.refused:
        return True
    if bound is None:
        return price.micro_usd_per_hour > 0
    return price.micro_usd_per_hour > bound * _AS_GOOD_AS_OPTIMAL


def _taken(claims: Iterable[OpenClaim]) -> set[str]:
    return {uid for claim in claims for uid in claim.pods}


def _on_new_machines(placement: Placement, queue: list[Run]) -> list[Run]:
    """Runs of the same class joined, without pods that need no new machine."""
    taken = _taken(placement.claims)
    found: dict[PodClass, list[str]] = {}
    everybody = sum(len(uids) for _, uids in queue) == len(taken)
    for pods, uids in queue:
        kept = uids if everybody else [uid for uid in uids if uid in taken]
        if kept:
            found.setdefault(pods, []).extend(kept)
    return list(found.items())


def _price(
    placement: Placement, queue: list[Run], settings: PackingSettings, paid: Paid | None
) -> Price:
    classes = {uid: pods for pods, uids in queue for uid in uids}
    too_large = sum(_is_too_large(claim, classes, settings) for claim in placement.claims)
    refused, price = paid(placement) if paid else (0, sum(map(cost, placement.claims)))
    return Price(refused, too_large, price)


def _is_too_large(
    claim: OpenClaim, classes: dict[str, PodClass], settings: PackingSettings
) -> bool:
    most = settings.most_node_cpu_milli
    if most is None:
        return False
    types = claim.template.table.types
    if min(types[i].capacity.get(CPU, 0) for i in claim.types.rows) <= most:
        return False
    small = [i for i in claim.template.types if types[i].capacity.get(CPU, 0) <= most]
    room = claim.template.available[small]
    requests = {classes[uid].index: classes[uid].requests for uid in claim.pods}
    return all((room >= request).all(axis=1).any() for request in requests.values())


def _policies(chosen: PackedPlacement, settings: PackingSettings) -> dict[str, str]:
    """Of the pools that got machines by another policy than FewestNodes."""
    pools = {c.template.pool.key for c in chosen.claims if packs(c.template, settings)}
    return dict.fromkeys(sorted(pools), LOWEST_COST)
