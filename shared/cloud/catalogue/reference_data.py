"""Bundled tables for facts without an AWS API, or without access to it: branch interfaces, bandwidth, prices.

The JSON files in ``data/`` carry a ``source`` note with their date; ``python -m shared.cloud.catalogue.refresh_data``
writes them anew. They are read once per process, at first use. A type that is newer than a table has no entry: no
pod-eni, no bandwidth label, no bundled price.
"""

from __future__ import annotations

from functools import cache

import msgspec

from shared.cloud.catalogue.amounts import micro_usd
from shared.distribution.files import packaged

DATA = packaged("shared.cloud.catalogue", "data")
LIMITS, BANDWIDTH, PRICES = "vpc-limits.json", "network-bandwidth.json", "on-demand-prices.json"
FALLBACK_REGION = "us-east-1"
"""Prices of this region stand in for regions without a list: prices differ by some percent, the order of types hardly.
"""


class VpcLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Network limits of one type (IT-20). ``interfaces`` is the total over all cards."""

    interfaces: int
    interfaces_per_card: tuple[int, ...]
    default_network_card: int
    ipv4_per_interface: int
    trunking: bool
    branch_interfaces: int


class LimitsFile(msgspec.Struct, frozen=True):
    """vpc-limits.json."""

    source: str
    limits: dict[str, VpcLimit]


class BandwidthFile(msgspec.Struct, frozen=True, rename="camel"):
    """network-bandwidth.json."""

    source: str
    megabits_per_second: dict[str, int]


class PriceFile(msgspec.Struct, frozen=True):
    """on-demand-prices.json: region -> instance type -> USD per hour."""

    source: str
    prices: dict[str, dict[str, float]]


def _read(name: str) -> bytes:
    return (DATA / name).read_bytes()


@cache
def vpc_limits() -> dict[str, VpcLimit]:
    """Instance type -> limits, from the Amazon VPC resource controller (IT-17, IT-20)."""
    return msgspec.json.decode(_read(LIMITS), type=LimitsFile).limits


@cache
def network_bandwidth() -> dict[str, int]:
    """Instance type -> baseline Mbps (IT-42)."""
    document = msgspec.json.decode(_read(BANDWIDTH), type=BandwidthFile)
    return document.megabits_per_second


def listed_prices() -> dict[str, dict[str, float]]:
    """Region -> instance type -> on-demand USD per hour, of the regions that the file has."""
    return msgspec.json.decode(_read(PRICES), type=PriceFile).prices


@cache
def bundled_prices(region: str) -> dict[str, int]:
    """Instance type -> on-demand micro-USD per hour, of ``region``, else of ``FALLBACK_REGION`` (IT-05)."""
    books = listed_prices()
    book = books.get(region) or books[FALLBACK_REGION]
    priced = ((name, micro_usd(repr(price))) for name, price in book.items())
    return {name: price for name, price in priced if price is not None}
