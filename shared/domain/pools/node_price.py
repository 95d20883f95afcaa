"""What one more node of a pool counts beside its price when a plan is made, as users write it."""

from __future__ import annotations

import re
from decimal import Decimal

MICRO_USD = 1_000_000
ALLOWED = "a price in US dollars per hour below 1000, such as 0.02"
PATTERN = r"[0-9]{1,3}([.][0-9]{1,6})?"
_WRITTEN = re.compile(PATTERN)


def read_node_price(written: str) -> int | None:
    """``0.02`` -> 20000 micro-USD per hour; None when it is not ``ALLOWED``."""
    return int(Decimal(written) * MICRO_USD) if _WRITTEN.fullmatch(written) else None


def node_price_text(micro_usd: int) -> str:
    """The inverse of ``read_node_price``."""
    return f"{Decimal(micro_usd) / MICRO_USD:f}"
