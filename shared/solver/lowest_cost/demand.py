"""Pods and a pool as a packing problem, with the pods of each class of the problem.

Pods with equal requests, rules and zone are one class, whatever deployment they belong to. With very many different
sizes the requests are rounded up to a grid: planned machines are then slightly too large, and the spare room is used
when they are built with the exact requests.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from shared.domain import labels as keys
from shared.solver.encode import Amounts, Indices, Mask, TypeTable
from shared.solver.lowest_cost.offers import OfferTable, covering, unbeaten
from shared.solver.lowest_cost.problem import (
    ANY_ZONE,
    Counts,
    Floats,
    Offers,
    Problem,
    distinct_rows,
)
from shared.solver.lowest_cost.rules import Allowed
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

MOST_CLASSES = 400
_GRIDS = (1.0, 1.05, 1.1, 1.2, 1.5, 2.0)


@dataclass(slots=True, eq=False)
class Batch:
    """Pods of one class that go to one zone, or to any zone."""

    pods: PodClass
    uids: list[str]
    allowed: Allowed
    zone: int = ANY_ZONE
    group: Hashable = None
    """Pods of one group share ``most_per_machine``; None: no limit."""
    most_per_machine: int = 0


@dataclass(slots=True, eq=False)
class Demand:
    """A packing problem. ``members``: the batches of each of its classes."""

    problem: Problem
    offers: Offers
    members: list[list[Batch]]

    def too_large(self) -> set[PodClass]:
        """Classes that fit no offering."""
        rows = np.flatnonzero(~np.any(self.problem.fits, axis=1))
        return {batch.pods for row in rows for batch in self.members[row]}


def demand_of(
    batches: Sequence[Batch],
    template: PoolTemplate,
    most_node_cpu_milli: int | None,
) -> Demand:
    """The problem of packing ``batches`` into machines of one pool."""
    table = template.table
    members = _grouped(batches)
    allowed = [_pinned(found[0]) for found in members]
    offers = _offers(allowed, template)
    may = np.array([_may_use(one, offers, template) for one in allowed], dtype=np.bool_)
    may = may.reshape(len(members), len(offers))
    kept = _unbeaten_anywhere(offers, may)
    offers, may = offers.only(kept), may[:, kept]
    requests = _requests(members, table)
    fits = may & fit(requests, offers.capacity)
    fits = _within_reason(fits, _small_enough(offers, table, most_node_cpu_milli))
    is_spot = np.array([kind == keys.SPOT for kind in table.capacity_types], dtype=np.bool_)
    fits = _within_reason(fits, offers.flexible, is_spot[offers.kinds])
    groups, slots = _groups(members)
    problem = Problem(
        requests, _counts(members), groups, slots, offers.capacity, offers.price, may, fits
    )
    return Demand(problem, offers, members)


def fit(requests: Floats, capacity: Floats) -> Mask:
    """[classes, offers]: one pod fits."""
    found = np.ones((len(requests), len(capacity)), dtype=np.bool_)
    for column in range(requests.shape[1]):
        found &= requests[:, column][:, None] <= capacity[:, column][None, :]
    return found


def rounded(requests: Amounts, ratio: float, direction: Callable[[Floats], Floats]) -> Floats:
    """Amounts on a grid where each step is ``ratio`` times the one below."""
    exact = requests.astype(np.float64)
    if ratio == 1.0:
        return exact
    steps = direction(np.log(np.maximum(exact, 1.0)) / np.log(ratio))
    found = direction(ratio**steps)
    return np.where(exact <= 1, exact, found)


def _grouped(batches: Sequence[Batch]) -> list[list[Batch]]:
    """Batches by class of the problem, with the finest grid that gives at most MOST_CLASSES classes."""
    for ratio in _GRIDS:
        found: dict[Hashable, list[Batch]] = {}
        for batch in batches:
            size = rounded(batch.pods.requests, ratio, np.ceil).tobytes()
            found.setdefault((size, _signature(batch), batch.zone, batch.group), []).append(batch)
        if len(found) <= MOST_CLASSES:
            break
    return list(found.values())


def _signature(batch: Batch) -> tuple[bytes, bytes, bytes]:
    types, zones, kinds = batch.allowed
    return types.tobytes(), zones.tobytes(), kinds.tobytes()


def _requests(members: list[list[Batch]], table: TypeTable) -> Floats:
    """Each class at the size of its largest member in every resource."""
    rows = [np.max([b.pods.requests for b in found], axis=0) for found in members]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(table.axis.names))


def _counts(members: list[list[Batch]]) -> Counts:
    return np.array([sum(len(b.uids) for b in found) for found in members], dtype=np.int64)


def _pinned(batch: Batch) -> Allowed:
    if batch.zone == ANY_ZONE:
        return batch.allowed
    zones = np.zeros_like(batch.allowed.zones)
    zones[batch.zone] = batch.allowed.zones[batch.zone]
    return batch.allowed._replace(zones=zones)


def _offers(allowed: list[Allowed], template: PoolTemplate) -> Offers:
    """The pool's offerings in any zone, and in single zones where some class allows only some of them."""
    distinct = {one.types.tobytes(): one.types for one in allowed}
    signatures = np.array([distinct[at] for at in sorted(distinct)], dtype=np.bool_)
    zones, kinds = np.zeros_like(template.zones), np.zeros_like(allowed[0].kinds)
    for one in allowed:
        kinds |= one.kinds
        if not (one.zones == template.zones).all():
            zones |= one.zones
    built = OfferTable(template, signatures)
    return built.offers([int(z) for z in np.flatnonzero(zones)], list(np.flatnonzero(kinds)))


def _may_use(one: Allowed, offers: Offers, template: PoolTemplate) -> Mask:
    everywhere = bool((one.zones == template.zones).all())
    in_zone = np.append(one.zones, everywhere)[offers.zones]
    found: Mask = in_zone & one.types[offers.types] & one.kinds[offers.kinds]
    return found


def _unbeaten_anywhere(offers: Offers, may: Mask) -> Indices:
    """Rows that some class may use and that no cheaper offering replaces, across zones and capacity types."""
    used = np.flatnonzero(may.any(axis=0))
    order = used[np.argsort(offers.price[used], kind="stable")]
    columns = may[distinct_rows(may)[0]][:, order].T
    rows = np.arange(len(order))
    better = unbeaten(offers.capacity[order], offers.flexible[order], covering(columns)(rows, rows))
    return np.sort(order[better])


def _small_enough(offers: Offers, table: TypeTable, most: int | None) -> Mask:
    if most is None:
        return np.ones(len(offers), dtype=np.bool_)
    cpu = np.array([t.capacity.get("cpu", 0) for t in table.types], dtype=np.int64)
    found: Mask = cpu[offers.types] <= most
    return found


def _within_reason(fits: Mask, preferred: Mask, concerned: Mask | None = None) -> Mask:
    """``fits`` without offerings that are not ``preferred``, for classes that fit a preferred one."""
    among = preferred if concerned is None else preferred & concerned
    forced = ~np.any(fits[:, among], axis=1)
    found: Mask = fits & (preferred | forced.reshape(-1, 1))
    return found


def _groups(members: list[list[Batch]]) -> tuple[Indices, Counts]:
    numbers: dict[Hashable, int] = {}
    slots: list[int] = []
    found = np.full(len(members), -1, dtype=np.intp)
    for row, batches in enumerate(members):
        if batches[0].group is not None:
            if batches[0].group not in numbers:
                numbers[batches[0].group] = len(numbers)
                slots.append(batches[0].most_per_machine)
            found[row] = numbers[batches[0].group]
    return found, np.array(slots, dtype=np.int64)
