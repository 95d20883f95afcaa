"""A lower bound for the cost of a whole plan, over all pools: no plan for these pods on new machines costs less.

The bound holds for every plan because each simplification can only lower it: a class may use whatever any of its
relaxations and volume alternatives allow, each type counts with its cheapest offering, and the rules that ``ignored``
returns are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shared.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from shared.solver.encode import Indices, Mask, ResourceAxis
from shared.solver.lowest_cost.bound.branching import whole_bound
from shared.solver.lowest_cost.bound.configuration import MOST_PAIRS
from shared.solver.lowest_cost.bound.dual import Worth, worth
from shared.solver.lowest_cost.bound.offerings import CheapestOfferings, Usable
from shared.solver.lowest_cost.bound.zones import Zones
from shared.solver.lowest_cost.demand import fit, rounded
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Problem, rows_as_bytes
from shared.solver.lowest_cost.rules import Rules
from shared.solver.lowest_cost.spread import HostLimit, host_limit
from shared.solver.placement.fewest_nodes import Placement, Run
from shared.solver.plan import CONFIGURATION, FLUID
from shared.solver.pod_classes import PodClass

_MOST_CLASSES = 1500
_SHARE_OF_EFFORT, _USUAL_EFFORT, _LEAST_UNITS = 2.0, 200, 6000.0
"""The configuration bound may take so many times the effort of the packing, and from the usual effort on at least so
many units: where zones matter it needs them."""
_IN_ZONES = 0.75
"""The part of it for the search in which machines have zones."""
_MOST_PAIRS_IN_ZONES = 14_000
"""As MOST_PAIRS, where machines have zones."""
_GRIDS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
_COMMON = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})


def extended_columns(axis: ResourceAxis, requests: Floats) -> Indices:
    """Columns of requested extended resources, such as GPUs, which only few types have."""
    asked = np.any(requests > 0, axis=0)
    found = [c for c, name in enumerate(axis.names) if name not in _COMMON and asked[c]]
    return np.array(found, dtype=np.intp)


def ignored(placement: Placement, runs: list[Run]) -> tuple[str, ...]:
    """The kinds of rules in the input that the bound ignores or covers only in part."""
    pods = [run[0].pod for run in runs]
    pools = [template.pool for template in placement.templates]
    wanted = [r for template in placement.templates for r in template.requirements]
    present = {
        "topology spread": any(pod.spread for pod in pods),
        "pod affinity": any(pod.affinity for pod in pods),
        "pod anti-affinity": any(pod.anti_affinity for pod in pods),
        "host ports": any(pod.host_ports for pod in pods),
        "pool limits": any(t.remaining is not None for t in placement.templates),
        "minValues": any(r.min_values is not None for r in wanted),
        "pool weights": len({pool.weight for pool in pools}) > 1,
    }
    return tuple(sorted(name for name, is_there in present.items() if is_there))


@dataclass(frozen=True, eq=False)
class LowerBound:
    """A bound of a placement, and what it was computed from."""

    micro_usd_per_hour: int
    kind: str
    stated: Stated | None = None
    market: Worth | None = None


class Part(NamedTuple):
    """Pods of one run, all of them or those that are certainly in one place."""

    run: int
    place: int | None
    pods: PodClass
    number: int


@dataclass(frozen=True, eq=False)
class Stated:
    """The pods of a placement as a packing problem. ``rows``: class of the problem per part."""

    problem: Problem
    parts: list[Part]
    rows: list[int]


def lower_bound(
    placement: Placement, runs: list[Run], rules: Rules, *, per_host: bool
) -> LowerBound | None:
    """The fluid bound, rounded down; None when it cannot be computed.

    ``runs``: the pods that go to new machines. ``per_host``: include the limits of pods per machine, which gives a
    better bound for many times the work.
    """
    if not runs:
        return LowerBound(0, FLUID)
    parts = [Part(at, None, pods, len(uids)) for at, (pods, uids) in enumerate(runs)]
    stated = _stated(placement, parts, rules, [_everywhere(placement)], per_host=per_host)
    if not (stated.problem.price > 0).any():
        return LowerBound(0, FLUID)
    extended = extended_columns(placement.table.axis, stated.problem.requests)
    found = worth(stated.problem, extended, presolved=per_host)
    if found is None:
        return None
    return LowerBound(max(0, math.floor(found.bound)), FLUID, stated, found)


def configuration_bound(
    fluid: LowerBound, placement: Placement, runs: list[Run], rules: Rules, effort: int
) -> LowerBound:
    """The configuration bound of the same pods where it is higher and they are not too many kinds, else ``fluid``.

    ``effort``: more of it never gives a lower bound. The better of two searches counts: one in which machines have no
    zone, which needs little of it, and where zones matter one in which they do.
    """
    if fluid.stated is None or fluid.market is None:
        return fluid
    prices, most = fluid.market.pods, _units(effort)
    found, zones = fluid, Zones(placement, runs, rules)
    if len(zones.places) > 1:
        apart = _stated(placement, _parts(runs, zones), rules, zones.places, per_host=True)
        if apart.problem.fits.sum() <= _MOST_PAIRS_IN_ZONES:
            known, part = _prices(apart, fluid.stated, prices), Effort(_IN_ZONES * most)
            found = _better(found, whole_bound(apart.problem, known, part))
            most *= 1 - _IN_ZONES
        else:
            found = _divided(found, apart.problem, placement.table.axis)
    if fluid.stated.problem.fits.sum() <= MOST_PAIRS:
        found = _better(found, whole_bound(fluid.stated.problem, prices, Effort(most)))
    return found


def _divided(known: LowerBound, apart: Problem, axis: ResourceAxis) -> LowerBound:
    """The fluid bound with machines of zones where that is higher: too many kinds for contents are few for it."""
    found = worth(apart, extended_columns(axis, apart.requests))
    if found is None or found.bound < known.micro_usd_per_hour + 1:
        return known
    return LowerBound(math.floor(found.bound), FLUID)


def _units(effort: int) -> float:
    return max(_SHARE_OF_EFFORT * effort, _LEAST_UNITS if effort >= _USUAL_EFFORT else 0.0)


def _better(known: LowerBound, configuration: int) -> LowerBound:
    if configuration <= known.micro_usd_per_hour:
        return known
    return LowerBound(configuration, CONFIGURATION)


def _everywhere(placement: Placement) -> Mask:
    """[zones]: all of them."""
    return np.ones(len(placement.table.zones), dtype=np.bool_)


def _stated(
    placement: Placement, parts: list[Part], rules: Rules, places: list[Mask], *, per_host: bool
) -> Stated:
    table = CheapestOfferings(placement.templates, places)
    usable = Usable(table, rules, tolerate_preferred=placement.tolerate_preferred)
    rows = [usable.number(one.pods, one.place) for one in parts]
    hard = [_hard_limit(placement, one.pods) if per_host else None for one in parts]
    requests, counts, chosen, limits, numbers = _merged(parts, rows, hard)
    may = np.array(usable.masks, dtype=np.bool_)
    used = table.worth_offering(may[np.unique(chosen)])
    capacity, price, may = table.capacity[used], table.price[used], may[chosen][:, used]
    groups, slots = _numbered(limits)
    fits = may & fit(requests, capacity)
    problem = Problem(requests, counts, groups, slots, capacity, price, may, fits)
    return Stated(problem, parts, numbers)


def _parts(runs: list[Run], zones: Zones) -> list[Part]:
    """The runs, divided into the pods that are certainly in a place and the others."""
    found = []
    for at, (pods, uids) in enumerate(runs):
        least = zones.least(at)
        shares = [*enumerate(least), (None, len(uids) - sum(least))]
        found += [Part(at, place, pods, count) for place, count in shares if count]
    return found


def _prices(stated: Stated, fluid: Stated, prices: Floats) -> Floats:
    """[classes]: the fluid bound's prices; the lowest where pods of different prices became one class."""
    found = np.full(len(stated.problem.counts), np.inf)
    for part, row in zip(stated.parts, stated.rows, strict=True):
        found[row] = min(found[row], prices[fluid.rows[part.run]])
    return found


def _merged(
    parts: list[Part], rows: list[int], hard: list[HostLimit | None]
) -> tuple[Floats, Counts, Indices, list[HostLimit | None], list[int]]:
    """Merges equal classes: requests, counts, index of their usable offerings, host limits, and the class per part.

    ``rows``: index of the usable offerings per part. With very many sizes, requests are rounded down to a grid, which
    keeps the bound valid.
    """
    requests = np.array([one.pods.requests for one in parts])
    for ratio in _GRIDS:
        found: dict[object, int] = {}
        counts: list[int] = []
        first: list[int] = []
        numbers: list[int] = []
        sizes = rounded(requests, ratio, np.floor)
        keys = zip(rows_as_bytes(sizes), rows, hard, strict=True)
        for at, (part, key) in enumerate(zip(parts, keys, strict=True)):
            row = found.setdefault(key, len(found))
            if row == len(counts):
                counts.append(0)
                first.append(at)
            counts[row] += part.number
            numbers.append(row)
        if len(found) <= _MOST_CLASSES:
            break
    chosen = np.array([rows[at] for at in first], dtype=np.intp)
    limits = [hard[at] for at in first]
    return sizes[first], np.array(counts, dtype=np.int64), chosen, limits, numbers


def _hard_limit(placement: Placement, pods: PodClass) -> HostLimit | None:
    """The class's limit per machine, if no relaxation can remove it."""
    pod = pods.pod
    soft = any(term.weight is not None for term in pod.anti_affinity)
    soft = soft or any(rule.when_unsatisfiable != "DoNotSchedule" for rule in pod.spread)
    return None if soft else host_limit(placement.topology, pods)


def _numbered(limits: Iterable[HostLimit | None]) -> tuple[Indices, Counts]:
    numbers: dict[HostLimit, int] = {}
    rows = [-1 if one is None else numbers.setdefault(one, len(numbers)) for one in limits]
    slots = [limit.most for limit in numbers]
    return np.array(rows, dtype=np.intp), np.array(slots, dtype=np.int64)
