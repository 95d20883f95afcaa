"""Corrections of prices and resources of instance types, as an administrator gives them (NO-01)."""

from __future__ import annotations

import msgspec

from shared.domain.expressions import Expression

MICRO_USD_PER_HOUR = "micro_usd_per_hour"
PARTS_PER_MILLION = "parts_per_million"
"""Kinds of PriceAdjustment."""


class PriceAdjustment(msgspec.Struct, frozen=True):
    """What is added to a price: ``amount`` (negative: taken off) in the unit that ``kind`` names."""

    kind: str
    amount: int


class Overlay(msgspec.Struct, frozen=True, omit_defaults=True):
    """One overlay. It gives a price, or an adjustment of it, or neither."""

    uid: str
    name: str
    generation: int = 0
    weight: int = 0
    """The highest holds; of equal ones that disagree none does."""
    requirements: tuple[Expression, ...] = ()
    """Which instance types and offerings are meant; empty: all."""
    price_adjustment: PriceAdjustment | None = None
    price_micro_usd_per_hour: int | None = None
    capacity: dict[str, int] = {}
    """Extended resources beside those of the instance type."""
