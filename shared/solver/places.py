"""What a capacity reservation has left, as the packings of all policies count it (SCH-105)."""

from __future__ import annotations

from typing import NamedTuple

from shared.domain.instance_types import Offering


class FreePlaces(NamedTuple):
    """Machines of one type that a reservation still takes."""

    type_name: str
    offering: Offering
    left: int
