"""A lower bound for the cost of a whole plan, over all pools: no plan for these pods on new machines costs less.

The bound holds for every plan because each simplification can only lower it: a class may use whatever any of its
relaxations and volume alternatives allow, each type counts with its cheapest offering, and the rules that ``ignored``
returns are left out.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shared.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from shared.solver.encode import NO_PRICE, Indices, Mask, ResourceAxis
from shared.solver.lowest_cost.bound.configuration import Configuration
from shared.solver.lowest_cost.bound.dual import Worth, worth
from shared.solver.lowest_cost.demand import fit, rounded
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.offers import covering, unbeaten
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, rows_as_bytes
from shared.solver.lowest_cost.rules import Rules, with_relaxations
from shared.solver.lowest_cost.spread import HostLimit, host_limit
from shared.solver.placement.fewest_nodes import Placement, Run
from shared.solver.placement.relaxation import SCHEDULE_ANYWAY
from shared.solver.plan import CONFIGURATION, FLUID
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

_MOST_CLASSES = 1500
_SHARE_OF_EFFORT = 2.0
"""The configuration bound may take so many times the effort of the packing."""
_PAIRS_PER_UNIT = 8
"""With more pairs of a class and an offering that fits it per unit of effort, the search ends before it proves more
than the fluid bound."""
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
    problem: Problem | None = None
    market: Worth | None = None
    rows: Sequence[int] = ()
    """Class of the problem per run of pods."""


def lower_bound(
    placement: Placement, runs: list[Run], rules: Rules, *, per_host: bool
) -> LowerBound | None:
    """The fluid bound, rounded down; None when it cannot be computed.

    ``runs``: the pods that go to new machines. ``per_host``: include the limits of pods per machine, which gives a
    better bound for many times the work.
    """
    if not runs:
        return LowerBound(0, FLUID)
    table = _CheapestOfferings(placement.templates)
    usable = _Usable(table, rules, tolerate_preferred=placement.tolerate_preferred)
    rows = [usable.number(pods) for pods, _ in runs]
    hard = [_hard_limit(placement, pods) if per_host else None for pods, _ in runs]
    requests, counts, chosen, limits, numbers = _merged(runs, rows, hard)
    may = np.array(usable.masks, dtype=np.bool_)[chosen]
    used = table.worth_offering(np.array(usable.masks, dtype=np.bool_))
    capacity, price = table.capacity[used], table.price[used]
    may = may[:, used]
    if not (price > 0).any():
        return LowerBound(0, FLUID)
    groups, slots = _numbered(limits)
    fits = may & fit(requests, capacity)
    problem = Problem(requests, counts, groups, slots, capacity, price, may, fits)
    extended = extended_columns(placement.table.axis, requests)
    found = worth(problem, extended, presolved=per_host)
    if found is None:
        return None
    return LowerBound(max(0, math.floor(found.bound)), FLUID, problem, found, numbers)


def configuration_bound(
    fluid: LowerBound, placement: Placement, runs: list[Run], effort: Effort
) -> LowerBound:
    """The configuration bound of the same pods where it is higher and the effort is enough for it, else ``fluid``.

    ``placement``: places these pods; the contents of its machines are what the search starts with.
    """
    if fluid.problem is None or fluid.market is None:
        return fluid
    if fluid.problem.fits.sum() > _PAIRS_PER_UNIT * effort.most:
        return fluid
    row_of = {uid: row for row, (_, uids) in zip(fluid.rows, runs, strict=True) for uid in uids}
    known = _contents(fluid.problem, placement, row_of)
    search = Configuration(fluid.problem, fluid.market.pods, known)
    search.improve(Effort(_SHARE_OF_EFFORT * effort.most))
    found = search.micro_usd_per_hour
    return fluid if found <= fluid.micro_usd_per_hour else LowerBound(found, CONFIGURATION)


def _contents(problem: Problem, placement: Placement, row_of: Mapping[str, int]) -> list[Pattern]:
    """The contents of the placement's machines, each on the cheapest offering that holds it."""
    found: dict[bytes, Pattern] = {}
    for machine in placement.machines:
        rows = [row_of[uid] for uid in machine.pods if uid in row_of]
        counts = np.bincount(rows, minlength=len(problem.counts)).astype(np.int64)
        held = np.flatnonzero(counts)
        holds = problem.fits[held].all(axis=0)
        holds &= (problem.capacity >= counts[held] @ problem.requests[held]).all(axis=1)
        if held.size and holds.any():
            offer = int(np.where(holds, problem.price, np.inf).argmin())
            found.setdefault(counts.tobytes(), Pattern(offer, held, counts[held], 1))
    return list(found.values())


class _Usable:
    """The offerings that classes could use, cached for classes that differ only in topology rules."""

    def __init__(
        self, table: _CheapestOfferings, rules: Rules, *, tolerate_preferred: bool
    ) -> None:
        self._table = table
        self._rules = rules
        self._tolerate_preferred = tolerate_preferred
        self._of_kind: dict[Hashable, int] = {}
        self._asked: dict[tuple[object, ...], int] = {}
        self._numbers: dict[bytes, int] = {}
        self.masks: list[Mask] = []
        """Distinct masks, each [offers]."""

    def number(self, pods: PodClass) -> int:
        """The index in ``masks`` of the offerings that the class or any of its relaxations could use."""
        found = self._of_kind.get(pods.kind)
        if found is None:
            asked = tuple(_cache_key(one) for one in (pods, *pods.others))
            if asked not in self._asked:
                self._asked[asked] = self._find(pods)
            found = self._of_kind[pods.kind] = self._asked[asked]
        return found

    def _find(self, pods: PodClass) -> int:
        forms = (
            one
            for root in (pods, *pods.others)
            for one in with_relaxations(root, tolerate_preferred=self._tolerate_preferred)
        )
        mask = self._table.usable(forms, self._rules)
        found = self._numbers.setdefault(mask.tobytes(), len(self._numbers))
        if found == len(self.masks):
            self.masks.append(mask)
        return found


def _cache_key(pods: PodClass) -> tuple[object, ...]:
    """The inputs of ``_find``. Preferred topology rules count by number, because each one is a relaxation step."""
    pod = pods.pod
    soft = sum(t.weight is not None for t in (*pod.affinity, *pod.anti_affinity))
    soft += sum(rule.when_unsatisfiable == SCHEDULE_ANYWAY for rule in pod.spread)
    selector = tuple(sorted(pod.node_selector.items())) if pod.node_selector else ()
    terms = (pod.required_terms, pod.preferred_terms)
    return pods.requirements, selector, terms, pod.tolerations, pod.host_ports, soft


class _CheapestOfferings:
    """Each type of each pool per capacity type, at its lowest price in any zone."""

    # Rows are blocks, one per pool and capacity type; within a block the cheapest type comes first.

    def __init__(self, templates: list[PoolTemplate]) -> None:
        self._templates = templates
        capacity: list[Floats] = []
        price: list[Floats] = []
        self._blocks: list[tuple[int, int, Indices]] = []
        self._offered: dict[tuple[int, bytes], Mask] = {}
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

    def usable(self, forms: Iterable[PodClass], rules: Rules) -> Mask:
        """[offers]: usable by any of these forms of a class."""
        found = np.zeros(len(self.price), dtype=np.bool_)
        for one in forms:
            for at, template in enumerate(self._templates):
                self._add_usable(found, one, at, template, rules)
        return found

    def _add_usable(
        self, found: Mask, pods: PodClass, at: int, template: PoolTemplate, rules: Rules
    ) -> None:
        allowed = rules.allowed(pods, template)
        if allowed is None:
            return
        offered = self._offered_in(at, allowed.zones)
        start = 0
        for block, kind, types in self._blocks:
            if block == at and allowed.kinds[kind]:
                found[start : start + len(types)] |= (allowed.types & offered[:, kind])[types]
            start += len(types)

    def _offered_in(self, at: int, zones: Mask) -> Mask:
        """[types, capacity types] of one pool: available in any of these zones."""
        asked = (at, zones.tobytes())
        found = self._offered.get(asked)
        if found is None:
            found = self._templates[at].table.available[:, zones].any(axis=1)
            self._offered[asked] = found
        return found

    def worth_offering(self, may: Mask) -> Indices:
        """The rows that no cheaper offer of the same pool replaces for every class."""
        columns = np.ascontiguousarray(may.T)
        is_used: Mask = np.asarray(columns.any(axis=1), dtype=np.bool_)
        ends = np.cumsum([len(types) for _, _, types in self._blocks])
        last = {at: int(end) for (at, _, _), end in zip(self._blocks, ends, strict=True)}
        found, start = [], 0
        for end in last.values():
            rows = start + is_used[start:end].nonzero()[0]
            rows = rows[np.argsort(self.price[rows], kind="stable")]
            rows = rows[_first_of_each(self.capacity[rows], columns[rows])]
            start = end
            if len(rows):
                at = np.arange(len(rows))
                stands_in = covering(columns[rows])(at, at)
                equal = np.ones(len(rows), dtype=np.bool_)
                found.append(rows[unbeaten(self.capacity[rows], equal, stands_in)])
        return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)


def _first_of_each(capacity: Floats, columns: Mask) -> Indices:
    """Indices of rows that equal no earlier row. Dropping equal rows saves most comparisons of ``unbeaten``."""
    found: dict[tuple[bytes, bytes], int] = {}
    rows = zip(rows_as_bytes(capacity), rows_as_bytes(columns), strict=True)
    for at, row in enumerate(rows):
        found.setdefault(row, at)
    return np.array(list(found.values()), dtype=np.intp)


def _merged(
    runs: list[Run], rows: list[int], hard: list[HostLimit | None]
) -> tuple[Floats, Counts, Indices, list[HostLimit | None], list[int]]:
    """Merges equal classes: requests, counts, index of their usable offerings, host limits, and the class per run.

    ``rows``: index of the usable offerings per run. With very many sizes, requests are rounded down to a grid, which
    keeps the bound valid.
    """
    requests = np.array([pods.requests for pods, _ in runs])
    for ratio in _GRIDS:
        found: dict[object, int] = {}
        counts: list[int] = []
        first: list[int] = []
        numbers: list[int] = []
        sizes = rounded(requests, ratio, np.floor)
        keys = zip(rows_as_bytes(sizes), rows, hard, strict=True)
        for at, ((_, uids), key) in enumerate(zip(runs, keys, strict=True)):
            row = found.setdefault(key, len(found))
            if row == len(counts):
                counts.append(0)
                first.append(at)
            counts[row] += len(uids)
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
