"""Places in capacity reservations that open machines of FewestNodes hold (SCH-105).

A place is one instance that a reservation can still launch. A new machine that suits a reservation with a free place is
opened in it, because the place is paid for. From then on it takes only pods with which it keeps a place, so that
nothing is bought while places are free. The choice among several reservations stays open until the end: a machine moves
to another one when a pod or another machine needs it to. A machine of a pool with minValues holds a place in every
reservation that suits it, and EC2 chooses among them.

When no place is left, other capacity is bought in the same plan; in Karpenter the pods wait for the next plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shared.domain import labels as keys
from shared.domain.instance_types.reservations import ID_LABEL
from shared.domain.requirements import Requirement, Requirements
from shared.solver.placement.planned_machines import Admission, OpenMachine
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.reservations.places import FreePlaces, allows, meets_min_values
from shared.solver.topology.counting import Refusal

LOSES_RESERVATION = Refusal("it would lose its place in a capacity reservation", is_final=True)

Places = tuple[FreePlaces, ...]
Admit = Callable[[OpenMachine], Admission | Refusal]


@dataclass(slots=True, eq=False)
class _Hold:
    """The places of one machine."""

    suiting: Places
    """The places that it may use, the cheapest type first (IT-07)."""
    taken: frozenset[str]
    """Ids of the reservations in which it holds a place: one, or with minValues all that suit."""
    has_min_values: bool
    ids: frozenset[str] = field(init=False)
    """The reservation ids of ``suiting``."""

    def __post_init__(self) -> None:
        self.suit(self.suiting)

    def suit(self, places: Places) -> None:
        """Sets the places that it may use."""
        self.suiting, self.ids = places, frozenset(map(_id, places))


@dataclass(slots=True, eq=False)
class HeldPlaces:
    """The places that the open machines of one plan hold. ``free`` may leave out full reservations."""

    free: Places = ()
    """The free places before the plan."""
    _left: dict[str, int] = field(default_factory=dict)
    """Reservation id -> places that no machine holds."""
    _holds: dict[OpenMachine, _Hold] = field(default_factory=dict)
    _allowed: dict[tuple[PoolTemplate, Requirements], Places] = field(default_factory=dict)
    """The members of ``free`` that requirements allow, types aside."""

    def __post_init__(self) -> None:
        self._left = {_id(one): one.left for one in self.free}
        self.free = tuple(sorted(self.free, key=_position))

    def use(self, left: Mapping[str, FreePlaces]) -> None:
        """Sets how many places are left, by reservation id, after machines that are not held here took some."""
        self._left = {
            name: left[name].left if name in left else n for name, n in self._left.items()
        }

    def open(self, machine: OpenMachine, admit: Admit) -> tuple[OpenMachine, Admission] | None:
        """A copy of ``machine`` narrowed to reservations with a place for it, and the admission of its first pods.

        None when there is no such reservation or the pods do not fit there.
        """
        suiting = self._with_place(machine) if any(self._left.values()) else ()
        if not _are_enough(suiting, machine.template, machine.requirements):
            return None
        inside = replace(
            machine,
            requirements=machine.requirements.add(*_narrowing(suiting)),
            types=_only(machine.types, suiting, machine.template),
        )
        has_min_values = machine.requirements.asks_for_values
        self._holds[inside] = _Hold(suiting, frozenset(), has_min_values)
        found = admit(inside)
        if isinstance(found, Admission):
            found = self.admit(inside, found)
        if isinstance(found, Admission):
            return inside, found
        del self._holds[inside]
        return None

    def admit(self, machine: OpenMachine, found: Admission) -> Admission | Refusal:
        """The admission narrowed to the machine's places, one of which it holds from now on.

        The unchanged admission for a machine outside reservations; LOSES_RESERVATION when no place is left for it.
        """
        hold = self._holds.get(machine)
        if hold is None:
            return found
        if (
            hold.taken
            and found.types is machine.types
            and found.requirements is machine.requirements
        ):
            return found
        suiting = self._suiting(machine.template, found.requirements, found.types)
        wanted = machine.template.requirements
        if not _are_enough(suiting, machine.template, wanted) or not self._take(hold, suiting):
            return LOSES_RESERVATION
        hold.suit(suiting)
        types = _only(found.types, suiting, machine.template)
        return Admission(found.count, found.requirements, types, found.content)

    def write_requirements(self) -> None:
        """Narrows each machine to the reservations in which it holds a place."""
        for machine, hold in self._holds.items():
            taken = tuple(one for one in hold.suiting if _id(one) in hold.taken)
            if taken:
                machine.requirements = machine.requirements.add(*_narrowing(taken))
                machine.types = _only(machine.types, taken, machine.template)

    def _with_place(self, machine: OpenMachine) -> Places:
        """Places that suit and are free, or would be free if other machines moved."""
        found = self._suiting(machine.template, machine.requirements, machine.types)
        open_to = {name for name, left in self._left.items() if left > 0}
        has_min_values = machine.requirements.asks_for_values
        if not has_min_values and any(_id(one) not in open_to for one in found):
            self._add_movable(open_to)
        return tuple(one for one in found if _id(one) in open_to)

    def _suiting(self, template: PoolTemplate, wanted: Requirements, types: TypeSet) -> Places:
        """The places that a machine with these requirements and types may use."""
        allowed = self._allowed.get((template, wanted))
        if allowed is None:
            node_class = template.pool.node_class_key
            allowed = self._allowed[template, wanted] = tuple(
                one
                for one in self.free
                if one.offering.zone in template.zone_names
                and node_class in one.offering.node_classes
                and allows(wanted, one.offering)
            )
        index = template.table.index
        return tuple(one for one in allowed if types.mask[index[one.type_name]])

    def _add_movable(self, open_to: set[str]) -> None:
        """Adds the reservations whose machines could move to one of ``open_to``, transitively."""
        known = -1
        while known < len(open_to):
            known = len(open_to)
            for hold in self._holds.values():
                if not hold.has_min_values and not hold.ids.isdisjoint(open_to):
                    open_to |= hold.taken

    def _take(self, hold: _Hold, suiting: Places) -> bool:
        """Takes a place of ``suiting``, the same as before if it is among them. False when there is none."""
        if hold.has_min_values:
            return self._take_each(hold, suiting)
        if hold.taken & {_id(one) for one in suiting}:
            return True
        before, hold.taken = hold.taken, frozenset()
        self._release(before)
        chain = self._chain(suiting)
        # The last move first: it ends at a free place, and each move frees the one that the move before it needs.
        for name, mover in reversed(chain[1:]):
            assert mover is not None
            self._release(mover.taken)
            mover.taken = self._take_one(name)
        hold.taken = self._take_one(chain[0][0] if chain else next(iter(before), ""))
        return bool(chain)

    def _take_each(self, hold: _Hold, suiting: Places) -> bool:
        wanted = frozenset(map(_id, suiting))
        self._release(hold.taken - wanted)
        for name in wanted - hold.taken:
            self._take_one(name)
        hold.taken = wanted
        return True

    def _chain(self, suiting: Places) -> list[tuple[str, _Hold | None]]:
        """The shortest chain of moves that ends at a free place; empty when there is none.

        The first entry is the reservation for the new machine; each further one is a reservation and the machine that
        moves into it from the reservation before.
        """
        came: dict[str, tuple[str, _Hold] | None] = {_id(one): None for one in suiting}
        waiting = deque(sorted(came, key=lambda name: self._left[name] < 1))
        while waiting:
            at = waiting.popleft()
            if self._left[at] > 0:
                return _path(at, came)
            for hold in self._holds.values():
                if at in hold.taken and not hold.has_min_values and not hold.ids <= came.keys():
                    others = [_id(one) for one in hold.suiting if _id(one) not in came]
                    came.update((name, (at, hold)) for name in others)
                    waiting += others
        return []

    def _take_one(self, name: str) -> frozenset[str]:
        if not name:
            return frozenset()
        self._left[name] -= 1
        return frozenset({name})

    def _release(self, taken: frozenset[str]) -> None:
        for name in taken:
            self._left[name] += 1


def _path(at: str, came: dict[str, tuple[str, _Hold] | None]) -> list[tuple[str, _Hold | None]]:
    """The chain from the new machine's reservation to the free place ``at``."""
    found: list[tuple[str, _Hold | None]] = []
    while (step := came[at]) is not None:
        found.append((at, step[1]))
        at = step[0]
    return [(at, None), *reversed(found)]


def _id(one: FreePlaces) -> str:
    return one.offering.reservation_id


def _position(one: FreePlaces) -> tuple[int, str, str, str]:
    return (one.offering.order, one.type_name, one.offering.zone, _id(one))


def _are_enough(suiting: Places, template: PoolTemplate, wanted: Requirements) -> bool:
    """Is there a place, and do the places meet minValues?"""
    table = template.table
    rows = ((table.types[table.index[o.type_name]].labels, o.offering.zone) for o in suiting)
    return bool(suiting) and (not wanted.asks_for_values or meets_min_values(rows, wanted))


def _narrowing(places: Places) -> list[Requirement]:
    """The requirements of a machine that is in one of these places."""
    labels = {
        keys.CAPACITY_TYPE: {keys.RESERVED},
        keys.ZONE: {one.offering.zone for one in places},
        ID_LABEL: {_id(one) for one in places},
    }
    return [Requirement(key, False, frozenset(values)) for key, values in labels.items()]


def _only(types: TypeSet, places: Places, template: PoolTemplate) -> TypeSet:
    rows = sorted({template.table.index[one.type_name] for one in places})
    return template.sets.intersection(types, template.sets.of_rows(np.array(rows, dtype=np.intp)))
