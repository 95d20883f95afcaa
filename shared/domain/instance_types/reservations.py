"""Capacity reservations as offerings of instance types (IT-04, IT-07, SCH-105).

A reserved offering is already paid for, so its price is 0, below every other. Karpenter divides the on-demand price by
ten million to keep an order among reserved offerings. Prices here are whole micro-USD, so the order is a separate
number, ``Offering.order``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering
from shared.domain.requirements import Requirements

CAPACITY_BLOCK = "capacity-block"
ID_LABEL = keys.AWS_PREFIX + "capacity-reservation-id"
TYPE_LABEL = keys.AWS_PREFIX + "capacity-reservation-type"
INTERRUPTIBLE_LABEL = keys.AWS_PREFIX + "capacity-reservation-interruptible"
LABELS = (ID_LABEL, TYPE_LABEL, INTERRUPTIBLE_LABEL)
"""Of machines in a reservation. No other machine has them."""


class Reservation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One capacity reservation, and which node classes select it."""

    id: str
    instance_type: str
    zone: str
    kind: str = "default"
    """default, or capacity-block."""
    interruptible: bool = False
    """Whether the owner of the reservation may reclaim the capacity."""
    left: int = 0
    """Number of available instances."""
    counted_at: float = 0.0
    """When EC2 reported ``left``; seconds since the epoch."""
    node_classes: tuple[str, ...] = ()
    """Keys."""


def merged(by_class: Mapping[str, Iterable[Reservation]]) -> tuple[Reservation, ...]:
    """The reservations of all node classes (class key -> its reservations): each once, with all its classes and the
    latest count, sorted by id. Pure."""
    latest: dict[str, Reservation] = {}
    classes: dict[str, set[str]] = defaultdict(set)
    for key, selected in sorted(by_class.items()):
        for one in selected:
            classes[one.id].add(key)
            known = latest.get(one.id)
            if known is None or (one.counted_at, -one.left) > (known.counted_at, -known.left):
                latest[one.id] = one
    return tuple(
        replace(one, node_classes=tuple(sorted(classes[name])))
        for name, one in sorted(latest.items())
    )


def needs_reservation(requirements: Requirements) -> bool:
    """Whether only a machine in a reservation meets them (IT-04)."""
    rules = (requirements.get(key) for key in LABELS)
    return any(rule is not None and not rule.accepts_absence for rule in rules)


def truth(value: bool) -> str:
    """As a label's value."""
    return str(value).lower()


def with_reserved(catalogue: Catalogue, reservations: Iterable[Reservation]) -> Catalogue:
    """The catalogue with an offering for each reservation with available instances. Its generation is unchanged."""
    by_type: dict[str, list[Reservation]] = defaultdict(list)
    for one in sorted(reservations, key=lambda one: one.id):
        if one.left > 0:
            by_type[one.instance_type].append(one)
    if not by_type:
        return catalogue
    types = tuple(
        _with_offerings(kind, by_type[kind.name]) if kind.name in by_type else kind
        for kind in catalogue.types
    )
    return replace(catalogue, types=types)


def _with_offerings(kind: InstanceType, reservations: list[Reservation]) -> InstanceType:
    usual = [o for o in kind.offerings if o.capacity_type == keys.ON_DEMAND]
    by_zone = {offering.zone: offering.price_micro_usd_per_hour for offering in usual}
    cheapest = min(by_zone.values(), default=0)
    added = tuple(
        Offering(
            one.zone,
            keys.RESERVED,
            0,
            reservation_id=one.id,
            reservation_type=one.kind,
            interruptible=one.interruptible,
            order=by_zone.get(one.zone, cheapest),
            left=one.left,
            counted_at=one.counted_at,
            node_classes=one.node_classes,
        )
        for one in reservations
    )
    labels = {
        ID_LABEL: tuple(sorted({one.id for one in reservations})),
        TYPE_LABEL: tuple(sorted({one.kind for one in reservations})),
        INTERRUPTIBLE_LABEL: tuple(sorted({truth(one.interruptible) for one in reservations})),
    }
    return replace(kind, offerings=(*kind.offerings, *added), labels={**kind.labels, **labels})
