"""Fills places of capacity reservations before the packing, because they are paid for already (SCH-105, IT-07).

The packing assumes any number of every offering, but a reservation has few places. Each machine is opened in the
cheapest place that holds all remaining pods, or else in the largest one. It is pinned to its reservation, and
``Admitter`` decides about each pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shared.domain import labels as keys
from shared.domain.requirements import Requirement
from shared.solver.encode import Amounts, Mask
from shared.solver.lowest_cost.building import Site
from shared.solver.lowest_cost.rules import Allowed
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate
from shared.solver.reservations.places import FreePlaces, labels_of_offering

MOST_MACHINES = 1000
"""Bound of one plan; the next plan uses the remaining places."""


@dataclass(slots=True, eq=False)
class WaitingClass:
    """Pods of one class that wait for a new machine."""

    pods: PodClass
    uids: list[str]
    allowed: dict[int, Allowed]
    """Index of the pool -> the types, zones and capacity types that the class may use there."""


def fill_reservations(
    site: Site,
    template: PoolTemplate,
    at: int,
    wanted: Sequence[WaitingClass],
    free: dict[str, FreePlaces],
) -> None:
    """Opens machines of the pool with index ``at`` in reservations, and removes their pods from ``wanted``.

    ``free``: reservation id -> its free places, from which the used ones are subtracted.
    """
    kinds = template.table.capacity_mask(template.requirements)
    if template.requirements.asks_for_values or not free:
        return  # minValues needs several types, and a place has one
    if not any(kinds[i] for i in _reserved_columns(template)):
        return
    usable = sorted(
        (one for one in free.values() if _is_the_pools(site, template, one)),
        key=lambda one: (one.offering.order, one.type_name, one.offering.reservation_id),
    )
    waiting = _WaitingPods(at, template, wanted)
    for _ in range(MOST_MACHINES):
        usable = [one for one in usable if one.left and _is_within_limits(template, one)]
        if not usable or not waiting.counts().any():
            return
        chosen = waiting.choose(usable)
        usable.remove(chosen)
        if _fill(site, template, waiting, chosen):
            left = chosen._replace(left=chosen.left - 1)
            free[left.offering.reservation_id] = left
            usable.append(left)
            usable.sort(key=lambda one: (one.offering.order, one.type_name))


class _WaitingPods:
    """The waiting pods that one pool may run, as arrays."""

    def __init__(self, at: int, template: PoolTemplate, wanted: Sequence[WaitingClass]) -> None:
        self.wanted = [one for one in wanted if at in one.allowed]
        self._at = at
        self._template = template
        width = template.available.shape[1]
        rows = [one.pods.requests for one in self.wanted]
        self.requests: Amounts = np.array(rows, dtype=np.int64).reshape(len(rows), width)

    def counts(self) -> Amounts:
        """[classes]: number of pods that still wait."""
        return np.array([len(one.uids) for one in self.wanted], dtype=np.int64)

    def choose(self, usable: Sequence[FreePlaces]) -> FreePlaces:
        """The first of ``usable``, sorted by list price, that holds all waiting pods; else the last."""
        total = self.counts() @ self.requests
        for one in usable:
            if (self._template.available[_type_of(self._template, one)] >= total).all():
                return one
        return usable[-1]

    def admitted(self, place: FreePlaces) -> Mask:
        """[classes]: rules allow the place, sizes aside."""
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
    """May machines of this pool use the place?"""
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


def _fill(site: Site, template: PoolTemplate, waiting: _WaitingPods, place: FreePlaces) -> bool:
    """Opens one machine in this place and fills it. False when it takes no pod."""
    number = len(site.machines)
    room = template.available[_type_of(template, place)]
    closed = ~waiting.admitted(place)
    while True:
        used = site.machines[number].used if len(site.machines) > number else 0
        open_to = ~closed & (waiting.counts() > 0) & (waiting.requests <= room - used).all(axis=1)
        if not open_to.any():
            return len(site.machines) > number
        row = int(open_to.argmax())
        one = waiting.wanted[row]
        uids = one.uids[:1] if site.is_single(one.pods) else one.uids
        if len(site.machines) > number:
            taken = site.fill_machine(number, one.pods, uids)
        else:
            taken = site.open_machine(_machine(template, place, number), one.pods, uids)
        one.uids = one.uids[taken:]
        closed[row] = not taken


def _machine(template: PoolTemplate, place: FreePlaces, number: int) -> OpenMachine:
    labels = {keys.INSTANCE_TYPE: place.type_name, **labels_of_offering(place.offering)}
    pinned = (Requirement(key, False, frozenset({value})) for key, value in labels.items() if value)
    types = template.sets.of_rows(np.array([_type_of(template, place)], dtype=np.intp))
    return OpenMachine.empty(template, number + 1, template.requirements.add(*pinned), types)
