"""Free places of capacity reservations, as both packing policies count them (SCH-105)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.instance_types.reservations import (
    ID_LABEL,
    INTERRUPTIBLE_LABEL,
    TYPE_LABEL,
    truth,
)
from shared.domain.instance_types.types import Offering
from shared.domain.requirements import Requirement, Requirements


class FreePlaces(NamedTuple):
    """The number of machines of one type that a reservation can still launch."""

    type_name: str
    offering: Offering
    left: int


def labels_of_offering(offering: Offering) -> dict[str, str]:
    """The labels that a machine gets from its offering."""
    labels = {keys.ZONE: offering.zone, keys.CAPACITY_TYPE: offering.capacity_type}
    if offering.reservation_id:
        labels[ID_LABEL] = offering.reservation_id
        labels[TYPE_LABEL] = offering.reservation_type
        labels[INTERRUPTIBLE_LABEL] = truth(offering.interruptible)
    return labels


def allows(wanted: Requirements, offering: Offering) -> bool:
    """Do the requirements allow this offering? Type and node class are not checked."""
    return refusing(wanted, offering) is None


def refusing(wanted: Requirements, offering: Offering) -> Requirement | None:
    """The first requirement that excludes this offering; None when all allow it."""
    rules = (
        (wanted.get(key), value) for key, value in labels_of_offering(offering).items() if value
    )
    return next((rule for rule, value in rules if rule is not None and not rule.has(value)), None)


def meets_min_values(
    found: Iterable[tuple[Mapping[str, tuple[str, ...]], str]], wanted: Requirements
) -> bool:
    """Do these (labels of the type, zone) have as many distinct values as minValues asks for? (SCH-12)"""
    listed = list(found)
    for rule in wanted:
        if rule.key == keys.ZONE:
            values = {zone for _, zone in listed}
        else:
            values = {value for labels, _ in listed for value in labels.get(rule.key, ())}
        if len(values) < (rule.min_values or 0):
            return False
    return True
