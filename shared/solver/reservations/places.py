"""What a capacity reservation has left, as the packings of all policies count it (SCH-105)."""

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
from shared.domain.requirements import Requirements


class FreePlaces(NamedTuple):
    """Machines of one type that a reservation still takes."""

    type_name: str
    offering: Offering
    left: int


def said_by(offering: Offering) -> dict[str, str]:
    """The labels that an offering decides of a machine."""
    said = {keys.ZONE: offering.zone, keys.CAPACITY_TYPE: offering.capacity_type}
    if offering.reservation_id:
        said[ID_LABEL] = offering.reservation_id
        said[TYPE_LABEL] = offering.reservation_type
        said[INTERRUPTIBLE_LABEL] = truth(offering.interruptible)
    return said


def allows(wanted: Requirements, offering: Offering) -> bool:
    """Is this an offering that the requirements allow? Type and node class aside."""
    rules = ((wanted.get(key), value) for key, value in said_by(offering).items() if value)
    return all(rule is None or rule.has(value) for rule, value in rules)


def has_enough_values(
    found: Iterable[tuple[Mapping[str, tuple[str, ...]], str]], wanted: Requirements
) -> bool:
    """SCH-12: do these (labels of the type, zone) leave as many values as minValues asks for?"""
    listed = list(found)
    for rule in wanted:
        if rule.key == keys.ZONE:
            values = {zone for _, zone in listed}
        else:
            values = {value for labels, _ in listed for value in labels.get(rule.key, ())}
        if len(values) < (rule.min_values or 0):
            return False
    return True
