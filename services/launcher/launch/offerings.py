"""Which offerings to ask EC2 for: pure (LCH-45..49).

The filters are Karpenter's. Where they leave nothing of one capacity type the next one serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from services.launcher.launch.fleet import MOST_TYPES
from services.launcher.launch_template.variants import Choice
from shared.domain import labels as keys
from shared.domain.instance_types.reservations import (
    CAPACITY_BLOCK,
    ID_LABEL,
    INTERRUPTIBLE_LABEL,
    TYPE_LABEL,
    needs_reservation,
    truth,
)
from shared.domain.instance_types.shortages import in_group
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import adapted
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering, of_pool
from shared.domain.machines.machine import Machine
from shared.domain.requirements import Requirements
from shared.domain.resources import fits
from shared.domain.snapshot import OfferingKey
from shared.errors import InsufficientCapacity

FEW_TYPES = 5
"""Fewer on-demand types than this, though spot was allowed, are worth a warning (LCH-48)."""
SPOT_TYPES_TRIED = 100
"""Two fleets' worth of types. When spot of so many was refused lately, on-demand is asked for instead (LCH-47)."""
_NOT_THE_TYPES_OWN = frozenset(
    {keys.ZONE, keys.ZONE_ID, keys.CAPACITY_TYPE, keys.PROVISIONER_NAME, keys.NODE_POOL}
)
"""Labels that the offering or the pool decides, not the type."""
_EXOTIC = ("nvidia.com/gpu", "amd.com/gpu", "aws.amazon.com/neuron", "habana.ai/gaudi")


_ByKind = dict[str, list[Choice]]
"""Capacity type -> its available choices, the cheapest first."""


class Chosen(msgspec.Struct, frozen=True):
    """What one CreateFleet call asks for: one capacity type, and its choices in price order."""

    capacity_type: str
    choices: tuple[Choice, ...]


def choose(
    machine: Machine,
    catalogue: Catalogue,
    zones: Iterable[str],
    unavailable: frozenset[OfferingKey],
    sizes: SizeSettings = USUAL,
) -> Chosen:
    """The capacity type to ask for, and at most 60 types in price order, with the sizes that this machine gets.

    Raises InsufficientCapacity when no offering is left (LCH-53).
    """
    desired = Requirements.of(machine.requirements)
    pool = machine.pool_key
    listed = (adapted(of_pool(t, pool), sizes) for t in catalogue.types if _is_named(t, desired))
    types = [t for t in listed if _suits(t, desired, machine)]
    offered = frozenset(zones)
    group = sizes.placement_group
    by_kind = {
        kind: _offered(types, desired, kind, offered, unavailable, group)
        for kind in capacity_types(desired)
    }
    every_spot = _offered(types, desired, keys.SPOT, offered) if by_kind.get(keys.SPOT) else []
    if _is_exhausted(every_spot, by_kind):
        del by_kind[keys.SPOT]
    for capacity_type, choices in _ranked(by_kind, desired):
        if choices:
            return Chosen(capacity_type, truncated(choices, desired))
    raise InsufficientCapacity(
        "no capacity offerings are currently available given the constraints",
        machine=machine.name,
    )


def falls_back_to_few(machine: Machine, chosen: Chosen) -> bool:
    """Spot was allowed and is not available, and few on-demand types are left (LCH-48)."""
    allowed = capacity_types(Requirements.of(machine.requirements))
    fell_back = chosen.capacity_type == keys.ON_DEMAND and keys.SPOT in allowed
    return fell_back and len(chosen.choices) < FEW_TYPES


def capacity_types(desired: Requirements) -> list[str]:
    """Those that are allowed; what is paid already first, then spot (LCH-47)."""
    rule = desired.get(keys.CAPACITY_TYPE)
    order = (keys.RESERVED, keys.SPOT, keys.ON_DEMAND)
    return [kind for kind in order if rule is None or rule.has(kind)]


def truncated(choices: list[Choice], desired: Requirements) -> tuple[Choice, ...]:
    """The 60 cheapest, after those that it takes to keep every ``minValues`` (LCH-46)."""
    if len(choices) <= MOST_TYPES:
        return tuple(choices)
    kept = {choice.type.name for choice in _needed(choices, desired)}
    for choice in choices:
        if len(kept) >= MOST_TYPES:
            break
        kept.add(choice.type.name)
    return tuple(choice for choice in choices if choice.type.name in kept)


def _needed(choices: list[Choice], desired: Requirements) -> Iterator[Choice]:
    """The cheapest type of each of the first ``minValues`` values."""
    for rule in desired:
        seen: set[str] = set()
        for choice in choices:
            if len(seen) >= (rule.min_values or 0):
                break
            fresh = set(choice.type.labels.get(rule.key, ())) - seen
            if fresh:
                seen |= fresh
                yield choice


def _is_named(kind: InstanceType, desired: Requirements) -> bool:
    """Does the machine allow this type? Most machines name few, and only those need to be adapted."""
    rule = desired.get(keys.INSTANCE_TYPE)
    return rule is None or rule.has(kind.name)


def _suits(kind: InstanceType, desired: Requirements, machine: Machine) -> bool:
    for rule in desired:
        if rule.key in _NOT_THE_TYPES_OWN or rule.key not in keys.WELL_KNOWN:
            continue
        values = kind.labels.get(rule.key)
        if values is None and not rule.accepts_absence:
            return False
        if values is not None and not any(rule.has(value) for value in values):
            return False
    return fits(machine.requests, kind.allocatable())


def _offered(
    types: list[InstanceType],
    desired: Requirements,
    capacity_type: str,
    zones: frozenset[str],
    unavailable: frozenset[OfferingKey] = frozenset(),
    group: str = "",
) -> list[Choice]:
    """Types with those of their offerings that may be bought, the cheapest first. ``group``: placement group."""
    rule = desired.get(keys.ZONE)
    found = []
    for kind in types:
        offerings = sorted(
            (
                o
                for o in kind.offerings
                if o.capacity_type == capacity_type
                and o.zone in zones
                and (rule is None or rule.has(o.zone))
                and unavailable.isdisjoint(_keys_of((capacity_type, kind.name, o.zone), group))
                and _is_asked_reservation(o, desired)
            ),
            key=lambda o: (o.price_micro_usd_per_hour + o.order, o.zone),
        )
        if offerings:
            found.append(Choice(kind, tuple(offerings)))
    return _by_price(found)


def _keys_of(offering: OfferingKey, group: str) -> tuple[OfferingKey, OfferingKey]:
    """Under which it may be unavailable: for all, and for this placement group."""
    return offering, in_group(offering, group)


def _is_asked_reservation(offering: Offering, desired: Requirements) -> bool:
    """Of reserved offerings only those that a machine may use, and no others for one that needs them (IT-04)."""
    if offering.capacity_type != keys.RESERVED:
        return not needs_reservation(desired)
    labels = (
        (ID_LABEL, offering.reservation_id),
        (TYPE_LABEL, offering.reservation_type or "default"),
        (INTERRUPTIBLE_LABEL, truth(offering.interruptible)),
    )
    rules = ((desired.get(key), value) for key, value in labels)
    return all(rule is None or rule.has(value) for rule, value in rules)


def _by_price(choices: Iterable[Choice]) -> list[Choice]:
    """Reserved ones all cost nothing, so their order distinguishes them (IT-07); of others it counts past shortages."""
    return sorted(choices, key=lambda one: (one.price + one.offerings[0].order, one.type.name))


def _ranked(by_kind: _ByKind, desired: Requirements) -> Iterator[tuple[str, list[Choice]]]:
    """LCH-45, LCH-47: what may be asked for, the best first; some of it may be empty.

    Reserved capacity is paid already. Then spot no dearer than on-demand, then on-demand; metal and accelerators only
    when neither has anything else. A pool that wants variety gets it: filters that only save money are skipped.
    """
    reserved = _of_one_kind_of_reservation(by_kind.get(keys.RESERVED) or [])
    varied = any(rule.min_values is not None for rule in desired)
    yield keys.RESERVED, reserved if varied else _plain(reserved)
    spot, on_demand = by_kind.get(keys.SPOT) or [], by_kind.get(keys.ON_DEMAND) or []
    if varied:
        yield keys.SPOT, spot
        yield keys.ON_DEMAND, on_demand
        return
    for is_wanted in (_is_plain, _is_exotic):
        yield keys.SPOT, _no_dearer([one for one in spot if is_wanted(one)], on_demand)
        yield keys.ON_DEMAND, [one for one in on_demand if is_wanted(one)]


def _no_dearer(spot: list[Choice], on_demand: list[Choice]) -> list[Choice]:
    """Spot at or below the cheapest on-demand price; all of it where on-demand is not available.

    EC2 chooses among all that a call names, so a dear zone of a cheap type goes as well.
    """
    if not on_demand:
        return spot
    most = _plain(on_demand)[0].price
    kept = (
        Choice(one.type, tuple(o for o in one.offerings if o.price_micro_usd_per_hour <= most))
        for one in spot
    )
    return [choice for choice in kept if choice.offerings]


def _is_exhausted(every_spot: list[Choice], by_kind: _ByKind) -> bool:
    """Was spot asked for so many types in vain that on-demand comes next?

    A fleet takes 60 types and a machine without capacity is planned anew, so a thousand suitable types would be twenty
    machines made and deleted before the first one starts.
    """
    if not by_kind.get(keys.ON_DEMAND):
        return False
    return len(every_spot) - len(by_kind.get(keys.SPOT) or []) >= SPOT_TYPES_TRIED


def _plain(choices: list[Choice]) -> list[Choice]:
    """Those without metal and accelerators, or all where there are no others."""
    return [choice for choice in choices if _is_plain(choice)] or choices


def _of_one_kind_of_reservation(choices: list[Choice]) -> list[Choice]:
    """One call asks for ordinary reservations, for interruptible ones, or for one capacity block: the cheapest block
    only when there is nothing else.
    """
    for is_wanted in (_is_ordinary, _is_interruptible):
        parts = (
            Choice(choice.type, tuple(filter(is_wanted, choice.offerings))) for choice in choices
        )
        kept = [choice for choice in parts if choice.offerings]
        if kept:
            return _by_price(kept)
    return [Choice(one.type, one.offerings[:1]) for one in choices[:1]]


def _is_ordinary(offering: Offering) -> bool:
    return offering.reservation_type != CAPACITY_BLOCK and not offering.interruptible


def _is_interruptible(offering: Offering) -> bool:
    return offering.reservation_type != CAPACITY_BLOCK and offering.interruptible


def _is_plain(choice: Choice) -> bool:
    return not _is_exotic(choice)


def _is_exotic(choice: Choice) -> bool:
    kind = choice.type
    size = kind.labels.get(keys.AWS_PREFIX + "instance-size", ("",))[0]
    return size.startswith("metal") or any(kind.capacity.get(name) for name in _EXOTIC)
