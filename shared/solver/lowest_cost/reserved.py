"""Machines that are paid for already come first: what fits on them costs nothing more (SCH-105, IT-07).

The market has any number of every offering; a capacity reservation has a few places. So places are filled before the
rest is packed: the cheapest place that holds all that is left, else the largest. Each such machine is pinned to its
reservation, and the same rules as everywhere decide about each pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shared.domain import labels as keys
from shared.domain.requirements import Requirement
from shared.solver.encode import Amounts, Indices, Mask
from shared.solver.lowest_cost.rules import Allowed
from shared.solver.placement.planned_machines import OpenClaim
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.reservations.places import FreePlaces, said_by

MOST_MACHINES = 1000
"""Filled in one plan; a reservation with more is used up in the next."""


class Waiting(Protocol):
    """Pods of one class that wait for a new machine."""

    pods: PodClass
    uids: list[str]
    allowed: dict[int, Allowed]


class Site(Protocol):
    """Where machines are built."""

    claims: list[OpenClaim]

    def small_types(self, template: PoolTemplate, types: Indices) -> Indices: ...
    def is_single(self, pods: PodClass) -> bool: ...
    def open_claim(self, claim: OpenClaim, pods: PodClass, uids: list[str]) -> int: ...
    def fill_claim(self, index: int, pods: PodClass, uids: list[str]) -> int: ...


def take_places(
    site: Site,
    template: PoolTemplate,
    at: int,
    wanted: Sequence[Waiting],
    free: dict[str, FreePlaces],
) -> None:
    """Move pods of ``wanted`` into reservations of one pool, the one at position ``at``. What is used is taken off
    ``free``, which is by reservation."""
    kinds = template.table.capacity_mask(template.requirements)
    if template.requirements.asks_for_values or not free:
        return  # a place is one type
    if not any(kinds[i] for i in _reserved_columns(template)):
        return
    usable = sorted(
        (one for one in free.values() if _is_the_pools(site, template, one)),
        key=lambda one: (one.offering.order, one.type_name, one.offering.reservation_id),
    )
    crowd = _Crowd(at, template, wanted)
    for _ in range(MOST_MACHINES):
        usable = [one for one in usable if one.left and _is_within_limits(template, one)]
        if not usable or not crowd.counts().any():
            return
        chosen = crowd.choose(usable)
        usable.remove(chosen)
        if _fill(site, template, crowd, chosen):
            left = chosen._replace(left=chosen.left - 1)
            free[left.offering.reservation_id] = left
            usable.append(left)
            usable.sort(key=lambda one: (one.offering.order, one.type_name))


class _Crowd:
    """The pods of one pool that still wait, as numbers."""

    def __init__(self, at: int, template: PoolTemplate, wanted: Sequence[Waiting]) -> None:
        self.wanted = [one for one in wanted if at in one.allowed]
        self._at = at
        self._template = template
        width = template.available.shape[1]
        rows = [one.pods.requests for one in self.wanted]
        self.requests: Amounts = np.array(rows, dtype=np.int64).reshape(len(rows), width)

    def counts(self) -> Amounts:
        """[classes]: pods without a place."""
        return np.array([len(one.uids) for one in self.wanted], dtype=np.int64)

    def choose(self, usable: Sequence[FreePlaces]) -> FreePlaces:
        """``usable`` sorted by what it would cost: the first that holds everybody, else the last."""
        total = self.counts() @ self.requests
        for one in usable:
            if (self._template.available[_type_of(self._template, one)] >= total).all():
                return one
        return usable[-1]

    def admitted(self, place: FreePlaces) -> Mask:
        """[classes]: rules allow it, whatever the size."""
        table = self._template.table
        index, zone = _type_of(self._template, place), table.zones.index(place.offering.zone)
        rows = [one.allowed[self._at] for one in self.wanted]
        columns = _reserved_columns(self._template)
        found = [
            bool(types[index] and zones[zone] and kinds[columns].any())
            for types, zones, kinds in rows
        ]
        return np.array(found, dtype=np.bool_)


def _reserved_columns(template: PoolTemplate) -> list[int]:
    kinds = template.table.capacity_types
    return [i for i, kind in enumerate(kinds) if kind == keys.RESERVED]


def _type_of(template: PoolTemplate, place: FreePlaces) -> int:
    return template.table.index[place.type_name]


def _is_the_pools(site: Site, template: PoolTemplate, one: FreePlaces) -> bool:
    """May this pool buy there?"""
    index = _type_of(template, one)
    return (
        one.offering.zone in template.table.zones
        and bool(template.zones[template.table.zones.index(one.offering.zone)])
        and template.pool.node_class_key in one.offering.node_classes
        and bool((template.types == index).any())
        and site.small_types(template, np.array([index], dtype=np.intp)).size > 0
    )


def _is_within_limits(template: PoolTemplate, one: FreePlaces) -> bool:
    return not template.nodes_exhausted and bool(template.within_limits()[_type_of(template, one)])


def _fill(site: Site, template: PoolTemplate, crowd: _Crowd, place: FreePlaces) -> bool:
    """Open one machine there and put in what it takes. False when it takes nothing."""
    number = len(site.claims)
    room = template.available[_type_of(template, place)]
    closed = ~crowd.admitted(place)
    while True:
        used = site.claims[number].used if len(site.claims) > number else 0
        open_to = ~closed & (crowd.counts() > 0) & (crowd.requests <= room - used).all(axis=1)
        if not open_to.any():
            return len(site.claims) > number
        row = int(open_to.argmax())
        one = crowd.wanted[row]
        uids = one.uids[:1] if site.is_single(one.pods) else one.uids
        if len(site.claims) > number:
            taken = site.fill_claim(number, one.pods, uids)
        else:
            taken = site.open_claim(_claim(template, place, number), one.pods, uids)
        one.uids = one.uids[taken:]
        closed[row] = not taken


def _claim(template: PoolTemplate, place: FreePlaces, number: int) -> OpenClaim:
    said = {keys.INSTANCE_TYPE: place.type_name, **said_by(place.offering)}
    pinned = (Requirement(key, False, frozenset({value})) for key, value in said.items() if value)
    return OpenClaim(
        template=template,
        hostname=f"hostname-placeholder-{number + 1:04d}",
        requirements=template.requirements.add(*pinned),
        types=template.sets.of_rows(np.array([_type_of(template, place)], dtype=np.intp)),
        used=np.zeros(template.available.shape[1], dtype=np.int64),
    )
