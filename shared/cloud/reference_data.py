"""Tables that AWS publishes but does not serve: branch interfaces, baseline bandwidth, a price
book.

The JSON files in ``data/`` carry a ``source`` note with their date. They are read once per process,
when first asked for. A type that is newer than a table simply has no entry: no pod-eni, no
bandwidth label, no bundled price.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec

from shared.cloud.pricing import micro_usd

FALLBACK_REGION = "us-east-1"
"""The price book's region: other regions differ by some percent, but the order of types is nearly
the same.
"""


class VpcLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Network limits of one type (IT-20). ``interfaces`` is the total over all cards."""

    interfaces: int
    interfaces_per_card: tuple[int, ...]
    default_network_card: int
    ipv4_per_interface: int
    trunking: bool
    branch_interfaces: int


class _LimitsFile(msgspec.Struct, frozen=True):
    source: str
    limits: dict[str, VpcLimit]


class _BandwidthFile(msgspec.Struct, frozen=True, rename="camel"):
    source: str
    megabits_per_second: dict[str, int]


class _PriceFile(msgspec.Struct, frozen=True):
    source: str
    prices: dict[str, dict[str, float]]


def _read(name: str) -> bytes:
    return (files("shared.cloud") / "data" / name).read_bytes()


@cache
def vpc_limits() -> dict[str, VpcLimit]:
    """Instance type -> limits, from the Amazon VPC resource controller (IT-17, IT-20)."""
    return msgspec.json.decode(_read("vpc-limits.json"), type=_LimitsFile).limits


@cache
def network_bandwidth() -> dict[str, int]:
    """Instance type -> baseline Mbps (IT-42)."""
    document = msgspec.json.decode(_read("network-bandwidth.json"), type=_BandwidthFile)
    return document.megabits_per_second


@cache
def bundled_prices(region: str) -> dict[str, int]:
    """Instance type -> on-demand micro-USD per hour, of ``region`` or else of ``FALLBACK_REGION``
    (IT-05).
    """
    books = msgspec.json.decode(_read("on-demand-prices.json"), type=_PriceFile).prices
    book = books.get(region) or books[FALLBACK_REGION]
    priced = ((name, micro_usd(repr(price))) for name, price in book.items())
    return {name: price for name, price in priced if price is not None}
