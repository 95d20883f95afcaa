"""Assigns planned machines to capacity reservations, one by one after the packing (SCH-105).

Both policies fill places before they buy (see ``held`` and ``lowest_cost.reserved``); the machines planned for a place
come first here. Another machine that may be reserved takes a remaining place of one reservation that its node class
selects, cheapest type first (IT-07), and is narrowed to it. In a pool with minValues, a machine takes a place in every
reservation that suits it, if together they meet minValues. A machine without a place is bought as spot or on-demand; if
it may only be reserved, it is not created and its pods wait.

What may go wrong: EC2's count of available instances may be a minute old. Machines that it cannot include yet are
subtracted. If the count is wrong all the same, the launch fails and the pods are planned again without that reservation
(LCH-61).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.reservations import ID_LABEL, TYPE_LABEL
from shared.domain.instance_types.types import InstanceType, Offering
from shared.domain.machines.machine import LAUNCHED, Machine
from shared.domain.requirements import IN, Requirements
from shared.domain.snapshot import Snapshot
from shared.solver.plan import PlannedMachine
from shared.solver.reservations.places import FreePlaces, allows, meets_min_values

NOT_RESERVED = (
    "one or more instance types with compatible reserved offerings are available, but could not be"
    " reserved"
)
EC2_COUNT_LAG_SECONDS = 60.0
"""How long after its launch an instance may still be missing from EC2's count."""


def reserve(
    machines: tuple[PlannedMachine, ...], snapshot: Snapshot
) -> tuple[tuple[PlannedMachine, ...], dict[str, str]]:
    """Assigns the remaining places, first to machines planned for one, then in the order of the machines.

    Returns the machines to create, and pod UID -> verdict for the pods of the others.
    """
    places = _RemainingPlaces(snapshot)
    if not places.kinds:
        return machines, {}
    kept: list[PlannedMachine] = []
    refused: dict[str, str] = {}
    assigned = {
        machine.name: _assigned(machine, places)
        for machine in sorted(machines, key=lambda one: not _is_inside(one))
    }
    for machine in machines:
        found = assigned[machine.name]
        if found is None:
            refused.update(dict.fromkeys(machine.pods, NOT_RESERVED))
        else:
            kept.append(found)
    return tuple(kept), refused


def free_places(snapshot: Snapshot) -> tuple[FreePlaces, ...]:
    """The free places that a plan may use, sorted by reservation id."""
    if not any(ID_LABEL in kind.labels for kind in snapshot.catalogue.types):
        return ()
    places = _RemainingPlaces(snapshot)
    found = [
        FreePlaces(kind.name, offering, places.left(offering))
        for kind in places.kinds
        for offering in kind.offerings
        if offering.reservation_id
        and (offering.capacity_type, kind.name, offering.zone) not in snapshot.unavailable
    ]
    return tuple(sorted(found, key=lambda one: one.offering.reservation_id))


class _RemainingPlaces:
    """The places that are left in each reservation while machines are assigned."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._unavailable = snapshot.unavailable
        self.types = {kind.name: kind for kind in snapshot.catalogue.types}
        self.kinds = [kind for kind in snapshot.catalogue.types if ID_LABEL in kind.labels]
        self._class_of = {pool.key: pool.node_class_key for pool in snapshot.pools}
        self._zones = {
            one.key: frozenset(subnet.zone for subnet in one.subnets)
            for one in snapshot.node_classes
        }
        offerings = [o for kind in self.kinds for o in kind.offerings if o.reservation_id]
        self._left = {o.reservation_id: o.left for o in offerings}
        counted_at = {o.reservation_id: o.counted_at for o in offerings}
        for machine in snapshot.machines if offerings else ():
            for held in _reservations_of(machine):
                if held in self._left and _is_uncounted(machine, counted_at[held]):
                    self._left[held] -= 1

    def left(self, offering: Offering) -> int:
        """How many places the offering's reservation has left."""
        return max(self._left.get(offering.reservation_id, 0), 0)

    def take(self, machine: PlannedMachine, wanted: Requirements) -> tuple[str, Offering] | None:
        """Takes a place that suits this machine: its type and offering; None when there is none."""
        suiting = self._suiting(machine, wanted)
        if not suiting:
            return None
        self._left[suiting[0][1].reservation_id] -= 1
        return suiting[0]

    def take_each(
        self, machine: PlannedMachine, wanted: Requirements
    ) -> list[tuple[str, Offering]]:
        """Takes a place in every reservation that suits, among which EC2 chooses; none when they do not meet minValues
        (SCH-12)."""
        suiting = self._suiting(machine, wanted)
        rows = [(self.types[name].labels, offering.zone) for name, offering in suiting]
        if not suiting or not meets_min_values(rows, wanted):
            return []
        for _, offering in suiting:
            self._left[offering.reservation_id] -= 1
        return suiting

    def _suiting(self, machine: PlannedMachine, wanted: Requirements) -> list[tuple[str, Offering]]:
        """Types and offerings with a free place, cheapest type first (IT-07)."""
        named = set(machine.instance_types)
        found = [
            (kind.name, offering)
            for kind in self.kinds
            if kind.name in named
            for offering in kind.offerings
            if self._left.get(offering.reservation_id, 0) > 0
            and self.may_buy(machine, kind, offering, wanted)
        ]
        return sorted(
            found, key=lambda one: (one[1].order, one[0], one[1].zone, one[1].reservation_id)
        )

    def may_buy(
        self, machine: PlannedMachine, kind: InstanceType, offering: Offering, wanted: Requirements
    ) -> bool:
        """May this machine use the offering, and is it available?"""
        node_class = self._class_of.get(machine.pool_key, "")
        return (
            offering.zone in self._zones.get(node_class, ())
            and (not offering.reservation_id or node_class in offering.node_classes)
            and (offering.capacity_type, kind.name, offering.zone) not in self._unavailable
            and allows(wanted, offering)
        )


def _assigned(machine: PlannedMachine, places: _RemainingPlaces) -> PlannedMachine | None:
    """The machine in its reservation, or outside; None when it may only be reserved and there is no place."""
    wanted = Requirements.of(machine.requirements)
    rule = wanted.get(keys.CAPACITY_TYPE)
    if rule is None or not rule.has(keys.RESERVED):
        return machine
    if wanted.asks_for_values:
        held = places.take_each(machine, wanted)
        return _inside_any(machine, held) if held else _outside(machine, wanted, places)
    found = places.take(machine, wanted)
    return _inside(machine, *found) if found else _outside(machine, wanted, places)


def _is_inside(machine: PlannedMachine) -> bool:
    """Was the machine planned for a place in a reservation?"""
    rule = Requirements.of(machine.requirements).get(keys.CAPACITY_TYPE)
    return rule is not None and rule.single_value == keys.RESERVED


def _inside(machine: PlannedMachine, name: str, offering: Offering) -> PlannedMachine:
    decided = {
        keys.CAPACITY_TYPE: keys.RESERVED,
        keys.ZONE: offering.zone,
        ID_LABEL: offering.reservation_id,
        TYPE_LABEL: offering.reservation_type,
    }
    labels = {**machine.labels, **decided}
    return replace(
        machine,
        instance_types=(name,),
        instance_type=name,
        offering=offering,
        requirements=_deciding(machine.requirements, {**decided, keys.INSTANCE_TYPE: name}),
        labels={key: labels[key] for key in sorted(labels)},
    )


def _inside_any(machine: PlannedMachine, held: list[tuple[str, Offering]]) -> PlannedMachine:
    """The machine narrowed to these places; EC2 chooses among them at launch."""
    names = tuple(dict.fromkeys(name for name, _ in held))
    asked = {
        keys.ZONE: {offering.zone for _, offering in held},
        ID_LABEL: {offering.reservation_id for _, offering in held},
        keys.CAPACITY_TYPE: {keys.RESERVED},
    }
    others = [one for one in machine.requirements if one.key not in asked]
    kept = [replace(o, values=names) if o.key == keys.INSTANCE_TYPE else o for o in others]
    least = {one.key: one.min_values for one in machine.requirements if one.operator == IN}
    kept += [
        Expression(key, IN, tuple(sorted(values)), least.get(key)) for key, values in asked.items()
    ]
    labels = {**machine.labels, keys.CAPACITY_TYPE: keys.RESERVED}
    return replace(
        machine,
        instance_types=names,
        instance_type=names[0],
        offering=held[0][1],
        requirements=tuple(sorted(kept, key=lambda one: (one.key, one.operator))),
        labels={key: labels[key] for key in sorted(labels)},
    )


def _deciding(
    requirements: Iterable[Expression], decided: dict[str, str]
) -> tuple[Expression, ...]:
    """The requirements with exactly one value for each key of ``decided``, sorted by key."""
    others = [one for one in requirements if one.key not in decided]
    found = [*others, *(Expression(key, IN, (value,)) for key, value in decided.items())]
    return tuple(sorted(found, key=lambda one: (one.key, one.operator)))


def _outside(
    machine: PlannedMachine, wanted: Requirements, places: _RemainingPlaces
) -> PlannedMachine | None:
    """The machine with the capacity types and instance types that have other offerings (NC-08); None without any."""
    named = wanted.get(ID_LABEL)
    if named is not None and not named.accepts_absence:
        return None
    offers = {
        name: offer
        for name in machine.instance_types
        if (offer := _usual(machine, name, wanted, places))
    }
    if not offers:
        return None
    names = tuple(offers)
    capacity_types = tuple(sorted({kind for offer in offers.values() for kind in offer[1]}))
    requirements = tuple(
        _narrowed(one, {keys.CAPACITY_TYPE: capacity_types, keys.INSTANCE_TYPE: names})
        for one in machine.requirements
    )
    labels = {k: v for k, v in machine.labels.items() if k != keys.CAPACITY_TYPE}
    if len(capacity_types) == 1:
        labels[keys.CAPACITY_TYPE] = capacity_types[0]
    return replace(
        machine,
        instance_types=names,
        instance_type=names[0],
        offering=offers[names[0]][0],
        requirements=requirements,
        labels={key: labels[key] for key in sorted(labels)},
    )


def _usual(
    machine: PlannedMachine, name: str, wanted: Requirements, places: _RemainingPlaces
) -> tuple[Offering, frozenset[str]] | None:
    """The cheapest spot or on-demand offering of a type, and the capacity types of all of them; None without any."""
    kind = places.types[name]
    found = [
        offering
        for offering in kind.offerings
        if not offering.reservation_id and places.may_buy(machine, kind, offering, wanted)
    ]
    if not found:
        return None
    cheapest = min(found, key=lambda o: (o.price_micro_usd_per_hour, o.zone, o.capacity_type))
    return cheapest, frozenset(offering.capacity_type for offering in found)


def _narrowed(one: Expression, allowed: dict[str, tuple[str, ...]]) -> Expression:
    values = allowed.get(one.key)
    return one if values is None else replace(one, operator=IN, values=values)


def _reservations_of(machine: Machine) -> Iterable[str]:
    """Ids of the reservation that the machine is in, or of those that it may still get into."""
    if found := machine.labels.get(ID_LABEL):
        return (found,)
    rule = Requirements.of(machine.requirements).get(ID_LABEL)
    return sorted(rule.values) if rule is not None and not rule.complement else ()


def _is_uncounted(machine: Machine, counted_at: float) -> bool:
    """May EC2's count not include the machine's instance yet?"""
    launched = machine.conditions.get(LAUNCHED)
    if not machine.provider_id or launched is None:
        return True
    return launched.since > counted_at - EC2_COUNT_LAG_SECONDS
