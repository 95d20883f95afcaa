"""On-demand prices from the AWS Price List API (IT-05), as integer micro-USD per hour.

The API answers with JSON documents inside JSON; a document that is not understood is skipped,
because one odd product must not hide a thousand good ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from shared.cloud.calls import ServiceCalls

MICRO_USD = Decimal(1_000_000)
HIGHEST_PRICE_USD = Decimal(100_000)
"""Per hour. Above this a price is a typing error."""
_CURRENCIES = ("USD", "CNY")
_HOMES = {"ap": "ap-south-1", "cn": "cn-northwest-1", "eu": "eu-central-1"}
_TENANCIES = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))


def pricing_region(region: str) -> str:
    """The region whose Price List endpoint serves ``region`` (IT-05)."""
    return _HOMES.get(region.partition("-")[0], "us-east-1")


def micro_usd(text: object) -> int | None:
    """``"0.0960000000"`` -> 96000, half a micro-dollar rounded up. None: no price (zero, negative,
    not a number).
    """
    try:
        amount = Decimal(str(text))
    except InvalidOperation:
        return None
    if not amount.is_finite() or not 0 < amount <= HIGHEST_PRICE_USD:
        return None
    return max(int((amount * MICRO_USD + Decimal("0.5")) // 1), 1)


def parse_product(document: str | bytes) -> tuple[str, int] | None:
    """(instance type, price) of one PriceList document, or None when it names no hourly price."""
    try:
        product: Any = msgspec.json.decode(document)
        name = product["product"]["attributes"]["instanceType"]
        terms = product["terms"]["OnDemand"].values()
        dimensions = [d for term in terms for d in term["priceDimensions"].values()]
        amounts = [d["pricePerUnit"] for d in dimensions if d.get("unit", "Hrs") == "Hrs"]
        prices = [micro_usd(a[c]) for a in amounts for c in _CURRENCIES if c in a]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return None
    known = [price for price in prices if price is not None]
    return (name, min(known)) if known and isinstance(name, str) else None


def parse_price_list(documents: Iterable[str | bytes]) -> dict[str, int]:
    """Instance type -> micro-USD per hour; the lowest when a type is listed twice."""
    prices: dict[str, int] = {}
    for document in documents:
        parsed = parse_product(document)
        if parsed is not None:
            name, price = parsed
            prices[name] = min(price, prices.get(name, price))
    return prices


class Pricing:
    """GetProducts for EC2."""

    def __init__(self, calls: ServiceCalls) -> None:
        self._calls = calls

    async def on_demand(self, region: str) -> dict[str, int]:
        """Instance type -> micro-USD per hour. Bare metal is sold as dedicated tenancy only."""
        prices: dict[str, int] = {}
        for tenancy, family in _TENANCIES:
            documents = await self._calls.pages(
                "get_products",
                "PriceList",
                ServiceCode="AmazonEC2",
                Filters=_filters(region, tenancy, family),
                MaxResults=100,
            )
            found = await asyncio.to_thread(parse_price_list, documents)
            prices = found | prices
        return prices


def _filters(region: str, tenancy: str, family: str) -> list[dict[str, str]]:
    fields = {
        "regionCode": region,
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        "productFamily": family,
    }
    return [{"Type": "TERM_MATCH", "Field": name, "Value": v} for name, v in fields.items()]
