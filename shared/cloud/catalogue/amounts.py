"""Prices as AWS writes them, in integer micro-USD per hour. It stands apart from ``pricing``, whose client of AWS would
slow the start of commands that only read a list of prices."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

MICRO_USD = Decimal(1_000_000)
HIGHEST_PRICE_USD = Decimal(100_000)
"""Per hour. A higher price is taken for an error in AWS's data."""


def micro_usd(text: object) -> int | None:
    """``"0.0960000000"`` -> 96000, half a micro-dollar rounded up. None for an invalid price (zero, negative, not a
    number).
    """
    try:
        amount = Decimal(str(text))
    except InvalidOperation:
        return None
    if not amount.is_finite() or not 0 < amount <= HIGHEST_PRICE_USD:
        return None
    return max(int((amount * MICRO_USD + Decimal("0.5")) // 1), 1)
