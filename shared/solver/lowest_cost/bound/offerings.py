"""Offerings as the bounds count them: each instance type of each pool at its lowest price, per capacity type and place.

A place is a set of zones; one place of all zones gives the smallest problem, several keep apart what is bound to zones.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from shared.solver.encode import NO_PRICE, Indices, Mask
from shared.solver.lowest_cost.offers import covering, unbeaten
from shared.solver.lowest_cost.problem import Floats, rows_as_bytes
from shared.solver.lowest_cost.rules import Rules, with_relaxations
from shared.solver.placement.relaxation import SCHEDULE_ANYWAY
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate


class _Block(NamedTuple):
    """Rows of one pool, capacity type and place, with the type of each."""

    pool: int
    kind: int
    place: int
    types: Indices


class Usable:
    """The offerings that classes could use, cached for classes that differ only in topology rules."""

    def __init__(self, table: CheapestOfferings, rules: Rules, *, tolerate_preferred: bool) -> None:
        self._table = table
        self._rules = rules
        self._tolerate_preferred = tolerate_preferred
        self._of_kind: dict[tuple[Hashable, int | None], int] = {}
        self._asked: dict[tuple[object, ...], Mask] = {}
        self._numbers: dict[bytes, int] = {}
        self.masks: list[Mask] = []
        """Distinct masks, each [offers]."""

    def number(self, pods: PodClass, place: int | None = None) -> int:
        """The index in ``masks`` of the offerings that the class or any of its relaxations could use, in one place if
        one is given."""
        found = self._of_kind.get((pods.kind, place))
        if found is None:
            found = self._of_kind[pods.kind, place] = self._numbered(self._mask(pods, place))
        return found

    def _mask(self, pods: PodClass, place: int | None) -> Mask:
        asked = tuple(_cache_key(one) for one in (pods, *pods.others))
        if asked not in self._asked:
            forms = forms_of(pods, tolerate_preferred=self._tolerate_preferred)
            self._asked[asked] = self._table.usable(forms, self._rules)
        mask = self._asked[asked]
        return mask if place is None else mask & (self._table.places == place)

    def _numbered(self, mask: Mask) -> int:
        found = self._numbers.setdefault(mask.tobytes(), len(self._numbers))
        if found == len(self.masks):
            self.masks.append(mask)
        return found


def forms_of(pods: PodClass, *, tolerate_preferred: bool) -> list[PodClass]:
    """The class, its relaxations, and those of the alternatives of its volumes."""
    return [
        one
        for root in (pods, *pods.others)
        for one in with_relaxations(root, tolerate_preferred=tolerate_preferred)
    ]


def _cache_key(pods: PodClass) -> tuple[object, ...]:
    """The inputs of ``_find``. Preferred topology rules count by number, because each one is a relaxation step."""
    pod = pods.pod
    soft = sum(t.weight is not None for t in (*pod.affinity, *pod.anti_affinity))
    soft += sum(rule.when_unsatisfiable == SCHEDULE_ANYWAY for rule in pod.spread)
    selector = tuple(sorted(pod.node_selector.items())) if pod.node_selector else ()
    terms = (pod.required_terms, pod.preferred_terms)
    return pods.requirements, selector, terms, pod.tolerations, pod.host_ports, soft


class CheapestOfferings:
    """Each type of each pool per capacity type and place, at its lowest price in any zone of the place.

    ``places``: masks of zones that have no zone in common.
    """

    # Rows are blocks, one per pool, capacity type and place; within a block the cheapest type comes first.

    def __init__(self, templates: list[PoolTemplate], places: Sequence[Mask]) -> None:
        self._templates = templates
        self._zones = places
        self._blocks: list[_Block] = []
        self._offered: dict[tuple[int, bytes], Mask] = {}
        capacity: list[Floats] = []
        price: list[Floats] = []
        kinds = range(len(templates[0].table.capacity_types))
        for at, kind, place in product(range(len(templates)), kinds, range(len(places))):
            template = templates[at]
            room = template.available[template.types]
            zones = template.zones & places[place]
            prices = template.table.price[template.types][:, zones, kind]
            cheapest = prices.min(axis=1, initial=NO_PRICE)
            rows = np.flatnonzero((cheapest != NO_PRICE) & (room >= 0).all(axis=1))
            rows = rows[np.argsort(cheapest[rows], kind="stable")]
            self._blocks.append(_Block(at, kind, place, template.types[rows]))
            capacity.append(room[rows].astype(np.float64))
            price.append(cheapest[rows].astype(np.float64))
        self.capacity = np.concatenate(capacity)
        self.price = np.concatenate(price)
        places_of = [np.full(len(one.types), one.place, dtype=np.intp) for one in self._blocks]
        self.places: Indices = np.concatenate(places_of)

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
        start = 0
        for block in self._blocks:
            end = start + len(block.types)
            if block.pool == at and allowed.kinds[block.kind]:
                offered = self._offered_in(at, allowed.zones & self._zones[block.place])
                found[start:end] |= (allowed.types & offered[:, block.kind])[block.types]
            start = end

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
        ends = np.cumsum([len(one.types) for one in self._blocks])
        last = {one.pool: int(end) for one, end in zip(self._blocks, ends, strict=True)}
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
