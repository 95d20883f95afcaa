"""Places in reservations that machines hold while FewestNodes builds them (SCH-105).

A new machine that may be in a reservation with a place left is opened in it: the place is paid for already. From then
on it takes only pods that leave it a place, so that nothing is bought while places are free. Which of several
reservations it gets is open until the end: it moves to another one when a pod or another machine needs that. A machine
of a pool with minValues holds a place of every reservation that suits it, of which EC2 chooses.

Where no place is left, machines are bought in the same plan; in Karpenter the pods wait for its next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from shared.domain import labels as keys
from shared.domain.instance_types.reservations import ID_LABEL
from shared.domain.requirements import Requirement, Requirements
from shared.solver.placement.planned_machines import Admission, OpenClaim
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet
from shared.solver.reservations.places import FreePlaces, allows, has_enough_values
from shared.solver.topology.counting import Refusal

LOSES_PLACE = Refusal("it would lose its place in a capacity reservation", is_final=True)

Places = tuple[FreePlaces, ...]
Admit = Callable[[OpenClaim], Admission | Refusal]


@dataclass(slots=True, eq=False)
class _Hold:
    """What one machine has."""

    suiting: Places
    """Where it may be, the cheapest type first (IT-07)."""
    taken: frozenset[str]
    """Ids of reservations: one, or with minValues all that suit."""
    choosy: bool
    ids: frozenset[str] = field(init=False)
    """Of ``suiting``."""

    def __post_init__(self) -> None:
        self.suit(self.suiting)

    def suit(self, places: Places) -> None:
        """From now on it may be in these."""
        self.suiting, self.ids = places, frozenset(map(_id, places))


@dataclass(slots=True, eq=False)
class HeldPlaces:
    """Who holds what in one plan. Reservations that are full need not be told."""

    free: Places = ()
    """What there is before anything is planned."""
    _left: dict[str, int] = field(default_factory=dict)
    """By id of the reservation."""
    _holds: dict[OpenClaim, _Hold] = field(default_factory=dict)
    _allowed: dict[tuple[PoolTemplate, Requirements], Places] = field(default_factory=dict)
    """What requirements leave of ``free``, types aside."""

    def __post_init__(self) -> None:
        self._left = {_id(one): one.left for one in self.free}
        self.free = tuple(sorted(self.free, key=_position))

    def use(self, left: Mapping[str, FreePlaces]) -> None:
        """By id of the reservation: so much is left after others, who are not told of here, took their places."""
        self._left = {
            name: left[name].left if name in left else n for name, n in self._left.items()
        }

    def open(self, claim: OpenClaim, admit: Admit) -> tuple[OpenClaim, Admission] | None:
        """A new machine in the reservations that have a place for it, with its first pods; None when there are none or
        the pods do not fit there. ``claim`` stays as it is."""
        suiting = self._with_place(claim) if any(self._left.values()) else ()
        if not _is_choice(suiting, claim.template, claim.requirements):
            return None
        inside = replace(
            claim,
            requirements=claim.requirements.add(*_narrowing(suiting)),
            types=_only(claim.types, suiting, claim.template),
        )
        choosy = claim.requirements.asks_for_values
        self._holds[inside] = _Hold(suiting, frozenset(), choosy)
        found = admit(inside)
        if isinstance(found, Admission):
            found = self.admit(inside, found)
        if isinstance(found, Admission):
            return inside, found
        del self._holds[inside]
        return None

    def admit(self, claim: OpenClaim, found: Admission) -> Admission | Refusal:
        """The admission within the machine's places, of which it has one from now on. A machine without any takes what
        it may."""
        hold = self._holds.get(claim)
        if hold is None:
            return found
        if hold.taken and found.types is claim.types and found.requirements is claim.requirements:
            return found
        suiting = self._suiting(claim.template, found.requirements, found.types)
        wanted = claim.template.requirements
        if not _is_choice(suiting, claim.template, wanted) or not self._take(hold, suiting):
            return LOSES_PLACE
        hold.suit(suiting)
        types = _only(found.types, suiting, claim.template)
        return Admission(found.count, found.requirements, types, found.used)

    def settle(self) -> None:
        """Write down where each machine is."""
        for claim, hold in self._holds.items():
            taken = tuple(one for one in hold.suiting if _id(one) in hold.taken)
            if taken:
                claim.requirements = claim.requirements.add(*_narrowing(taken))
                claim.types = _only(claim.types, taken, claim.template)

    def _with_place(self, claim: OpenClaim) -> Places:
        """Reservations that suit and have a place, or would have one if others moved."""
        found = self._suiting(claim.template, claim.requirements, claim.types)
        open_to = {name for name, left in self._left.items() if left > 0}
        choosy = claim.requirements.asks_for_values
        if not choosy and any(_id(one) not in open_to for one in found):
            self._add_movable(open_to)
        return tuple(one for one in found if _id(one) in open_to)

    def _suiting(self, template: PoolTemplate, wanted: Requirements, types: TypeSet) -> Places:
        """Where a machine may be. One that holds a place asks for nothing but what suited it before."""
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
        """Where a machine may move to one of ``open_to``, there is a place too; and so on."""
        known = -1
        while known < len(open_to):
            known = len(open_to)
            for hold in self._holds.values():
                if not hold.choosy and not hold.ids.isdisjoint(open_to):
                    open_to |= hold.taken

    def _take(self, hold: _Hold, suiting: Places) -> bool:
        """Hold a place of ``suiting``, the same as before if it is still among them."""
        if hold.choosy:
            return self._take_each(hold, suiting)
        if hold.taken & {_id(one) for one in suiting}:
            return True
        before, hold.taken = hold.taken, frozenset()
        self._give_back(before)
        chain = self._chain(suiting)
        for name, mover in reversed(chain[1:]):
            assert mover is not None
            self._give_back(mover.taken)
            mover.taken = self._book(name)
        hold.taken = self._book(chain[0][0] if chain else next(iter(before), ""))
        return bool(chain)

    def _take_each(self, hold: _Hold, suiting: Places) -> bool:
        wanted = frozenset(map(_id, suiting))
        self._give_back(hold.taken - wanted)
        for name in wanted - hold.taken:
            self._book(name)
        hold.taken = wanted
        return True

    def _chain(self, suiting: Places) -> list[tuple[str, _Hold | None]]:
        """The shortest row of moves that ends at a free place: the reservation that a newcomer gets, then who moves
        from there to which, and so on. Empty: there is none."""
        came: dict[str, tuple[str, _Hold] | None] = {_id(one): None for one in suiting}
        waiting = deque(sorted(came, key=lambda name: self._left[name] < 1))
        while waiting:
            at = waiting.popleft()
            if self._left[at] > 0:
                return _row(at, came)
            for hold in self._holds.values():
                if at in hold.taken and not hold.choosy and not hold.ids <= came.keys():
                    others = [_id(one) for one in hold.suiting if _id(one) not in came]
                    came.update((name, (at, hold)) for name in others)
                    waiting += others
        return []

    def _book(self, name: str) -> frozenset[str]:
        if not name:
            return frozenset()
        self._left[name] -= 1
        return frozenset({name})

    def _give_back(self, taken: frozenset[str]) -> None:
        for name in taken:
            self._left[name] += 1


def _row(at: str, came: dict[str, tuple[str, _Hold] | None]) -> list[tuple[str, _Hold | None]]:
    """From the newcomer's reservation to the free place ``at``."""
    found: list[tuple[str, _Hold | None]] = []
    while (step := came[at]) is not None:
        found.append((at, step[1]))
        at = step[0]
    return [(at, None), *reversed(found)]


def _id(one: FreePlaces) -> str:
    return one.offering.reservation_id


def _position(one: FreePlaces) -> tuple[int, str, str, str]:
    return (one.offering.order, one.type_name, one.offering.zone, _id(one))


def _is_choice(suiting: Places, template: PoolTemplate, wanted: Requirements) -> bool:
    """Is there any, and of as many kinds as minValues asks for?"""
    table = template.table
    rows = ((table.types[table.index[o.type_name]].labels, o.offering.zone) for o in suiting)
    return bool(suiting) and (not wanted.asks_for_values or has_enough_values(rows, wanted))


def _narrowing(places: Places) -> list[Requirement]:
    """What being in one of these says about a machine."""
    said = {
        keys.CAPACITY_TYPE: {keys.RESERVED},
        keys.ZONE: {one.offering.zone for one in places},
        ID_LABEL: {_id(one) for one in places},
    }
    return [Requirement(key, False, frozenset(values)) for key, values in said.items()]


def _only(types: TypeSet, places: Places, template: PoolTemplate) -> TypeSet:
    rows = sorted({template.table.index[one.type_name] for one in places})
    return template.sets.both(types, template.sets.of_rows(np.array(rows, dtype=np.intp)))
