"""No plan for these pods on new machines can cost less: the bound of a whole plan, over all pools.

It holds for every plan because whatever is left out would only make plans dearer: a class counts
with all that its preferences and volumes may still turn it into, each type with its cheapest place,
and the rules in ``ignored`` not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from shared.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from shared.solver.encode import NO_PRICE, Indices, Mask, ResourceAxis
from shared.solver.lowest_cost.demand import fit, rounded
from shared.solver.lowest_cost.dual import worth
from shared.solver.lowest_cost.offers import covering, unbeaten
from shared.solver.lowest_cost.problem import Counts, Floats, Problem
from shared.solver.lowest_cost.rules import Rules, with_relaxations
from shared.solver.lowest_cost.spread import HostLimit, host_limit
from shared.solver.placement import Placement, Run
from shared.solver.pod_classes import PodClass
from shared.solver.templates import PoolTemplate

_MOST_CLASSES = 1500
_GRIDS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0)
_COMMON = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})


def extended_columns(axis: ResourceAxis, requests: Floats) -> Indices:
    """Columns of requested resources that only few types have, such as GPUs."""
    asked = np.any(requests > 0, axis=0)
    found = [c for c, name in enumerate(axis.names) if name not in _COMMON and asked[c]]
    return np.array(found, dtype=np.intp)


def ignored(placement: Placement, runs: list[Run]) -> tuple[str, ...]:
    """What is in the input and not, or not wholly, in the bound."""
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


def lower_bound(placement: Placement, runs: list[Run], rules: Rules) -> int | None:
    """Micro-USD per hour, rounded down; None when it cannot be computed. ``runs``: the pods that go
    to new machines."""
    if not runs:
        return 0
    table = _CheapestPlaces(placement.templates)
    rows = np.array([table.usable(pods, rules, placement) for pods, _ in runs], dtype=np.bool_)
    requests, counts, may, limits = _merged(placement, runs, rows)
    used = table.worth_offering(may)
    capacity, price = table.capacity[used], table.price[used]
    may = may[:, used]
    if not (price > 0).any():
        return 0
    groups, slots = _numbered(limits)
    fits = may & fit(requests, capacity)
    problem = Problem(requests, counts, groups, slots, capacity, price, may, fits)
    found = worth(problem, extended_columns(placement.table.axis, requests))
    return None if found is None else max(0, math.floor(found.bound))


class _CheapestPlaces:
    """Each type of each pool per capacity type, at its lowest price in any zone."""

    def __init__(self, templates: list[PoolTemplate]) -> None:
        self._templates = templates
        capacity: list[Floats] = []
        price: list[Floats] = []
        self._blocks: list[tuple[int, int, Indices]] = []
        for at, template in enumerate(templates):
            room = template.available[template.types]
            prices = template.table.price[template.types][:, template.zones]
            for kind in range(len(template.table.capacity_types)):
                cheapest = prices[:, :, kind].min(axis=1, initial=NO_PRICE)
                rows = np.flatnonzero((cheapest != NO_PRICE) & (room >= 0).all(axis=1))
                rows = rows[np.argsort(cheapest[rows], kind="stable")]
                self._blocks.append((at, kind, template.types[rows]))
                capacity.append(room[rows].astype(np.float64))
                price.append(cheapest[rows].astype(np.float64))
        self.capacity = np.concatenate(capacity)
        self.price = np.concatenate(price)

    def usable(self, pods: PodClass, rules: Rules, placement: Placement) -> Mask:
        """[offers]: what the class, or what it may become, could use."""
        found = np.zeros(len(self.price), dtype=np.bool_)
        tolerant = placement.tolerate_preferred
        for root in (pods, *pods.others):
            for one in with_relaxations(root, tolerate_preferred=tolerant):
                for at, template in enumerate(self._templates):
                    self._mark(found, one, at, template, rules)
        return found

    def _mark(
        self, found: Mask, pods: PodClass, at: int, template: PoolTemplate, rules: Rules
    ) -> None:
        allowed = rules.allowed(pods, template)
        if allowed is None:
            return
        offered = template.table.available[:, allowed.zones].any(axis=1)
        start = 0
        for block, kind, types in self._blocks:
            if block == at and allowed.kinds[kind]:
                found[start : start + len(types)] |= (allowed.types & offered[:, kind])[types]
            start += len(types)

    def worth_offering(self, may: Mask) -> Indices:
        """Without what a cheaper offer of the same pool and capacity type replaces."""
        columns = np.unique(may, axis=0).T
        found, start = [], 0
        for _, _, types in self._blocks:
            rows = np.arange(start, start + len(types))
            rows = rows[columns[rows].any(axis=1)]
            start += len(types)
            if len(rows):
                at = np.arange(len(rows))
                stands_in = covering(columns[rows])(at, at)
                equal = np.ones(len(rows), dtype=np.bool_)
                found.append(rows[unbeaten(self.capacity[rows], equal, stands_in)])
        return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)


def _merged(
    placement: Placement, runs: list[Run], rows: Mask
) -> tuple[Floats, Counts, Mask, list[HostLimit | None]]:
    """Equal classes as one. With very many sizes, requests are rounded down to a grid."""
    for ratio in _GRIDS:
        found: dict[object, int] = {}
        counts: list[int] = []
        first: list[int] = []
        sizes: list[Floats] = []
        for at, (pods, uids) in enumerate(runs):
            size = rounded(pods.requests, ratio, np.floor)
            key = (size.tobytes(), rows[at].tobytes(), _hard_limit(placement, pods))
            row = found.setdefault(key, len(found))
            if row == len(counts):
                counts.append(0)
                first.append(at)
                sizes.append(size)
            counts[row] += len(uids)
        if len(found) <= _MOST_CLASSES:
            break
    limits = [_hard_limit(placement, runs[at][0]) for at in first]
    return np.array(sizes), np.array(counts, dtype=np.int64), rows[first], limits


def _hard_limit(placement: Placement, pods: PodClass) -> HostLimit | None:
    """A limit per machine, where no relaxation can lift it."""
    pod = pods.pod
    soft = any(term.weight is not None for term in pod.anti_affinity)
    soft = soft or any(rule.when_unsatisfiable != "DoNotSchedule" for rule in pod.spread)
    return None if soft else host_limit(placement.topology, pods)


def _numbered(limits: Iterable[HostLimit | None]) -> tuple[Indices, Counts]:
    numbers: dict[HostLimit, int] = {}
    rows = [-1 if one is None else numbers.setdefault(one, len(numbers)) for one in limits]
    slots = [limit.most for limit in numbers]
    return np.array(rows, dtype=np.intp), np.array(slots, dtype=np.int64)
