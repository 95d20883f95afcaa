"""On-demand prices from the AWS Price List API, and the parsing of spot prices (IT-05, IT-06), in integer micro-USD per
hour.

The API answers with JSON documents inside JSON. One invalid product must not hide the valid ones: an invalid price
(negative, not a number) becomes a fault with the type's name, and entries without a type are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from shared.cloud.catalogue.amounts import micro_usd
from shared.cloud.client.calls import AwsService, Json

_CURRENCIES = ("USD", "CNY")
_HOMES = {"ap": "ap-south-1", "cn": "cn-northwest-1", "eu": "eu-central-1"}
_TENANCIES = (("Shared", "Compute Instance"), ("Dedicated", "Compute Instance (bare metal)"))
SpotPool = tuple[str, str]
"""(instance type, zone)."""
Key = TypeVar("Key")


class Priced(msgspec.Struct, Generic[Key], frozen=True):
    """Valid prices in micro-USD per hour; ``faults`` holds the text of each invalid price."""

    prices: dict[Key, int]
    faults: dict[Key, str]
    unreadable: int = 0
    """Entries without a readable type or zone."""

    def kept(self, previous: Mapping[Key, int]) -> dict[Key, int]:
        """All prices, with the previous price where this read has a fault, or may have one."""
        doubtful = previous.keys() if self.unreadable else self.faults.keys() & previous.keys()
        return {key: previous[key] for key in doubtful} | self.prices


class KnownPrices(msgspec.Struct, frozen=True):
    """The prices of the last successful reads. ``spot`` is None until the history was read once."""

    on_demand: dict[str, int]
    spot: dict[SpotPool, int] | None = None


class _Document(msgspec.Struct):
    on_demand: dict[str, int]
    spot: list[tuple[str, str, int]] | None


def encode_prices(known: KnownPrices) -> bytes:
    """The prices as JSON; spot prices become rows, because a JSON key cannot have two parts."""
    spot = None if known.spot is None else [(*pool, price) for pool, price in known.spot.items()]
    return msgspec.json.encode(_Document(known.on_demand, spot))


def decode_prices(document: bytes) -> KnownPrices | None:
    """The inverse of ``encode_prices``; None for a document of another version."""
    try:
        found = msgspec.json.decode(document, type=_Document)
    except msgspec.DecodeError:
        return None
    spot = None if found.spot is None else {(name, zone): p for name, zone, p in found.spot}
    return KnownPrices(found.on_demand, spot)


def pricing_region(region: str) -> str:
    """The region whose Price List endpoint serves ``region`` (IT-05)."""
    return _HOMES.get(region.partition("-")[0], "us-east-1")


def parse_product(document: str | bytes) -> tuple[str, list[object]] | None:
    """(instance type, its hourly prices as text) of one PriceList document; None when it is not such a document."""
    try:
        product: Any = msgspec.json.decode(document)
        name = product["product"]["attributes"]["instanceType"]
        terms = product["terms"]["OnDemand"].values()
        dimensions = [d for term in terms for d in term["priceDimensions"].values()]
        amounts = [d["pricePerUnit"] for d in dimensions if d.get("unit", "Hrs") == "Hrs"]
        written = [amount[c] for amount in amounts for c in _CURRENCIES if c in amount]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return None
    return (name, written) if name and isinstance(name, str) else None


def parse_price_list(documents: Iterable[str | bytes]) -> Priced[str]:
    """Prices by instance type; the lowest one when a type is listed twice."""
    prices: dict[str, int] = {}
    faults: dict[str, str] = {}
    unreadable = 0
    for document in documents:
        name, written = parse_product(document) or ("", [])
        unreadable += not name
        for text in written:
            price = micro_usd(text)
            if price is not None:
                prices[name] = min(price, prices.get(name, price))
            else:
                faults[name] = str(text)[:40]
    without_price = {name: text for name, text in faults.items() if name not in prices}
    return Priced(prices, without_price, unreadable)


def newest_spot_prices(items: Iterable[Json]) -> Priced[SpotPool]:
    """The latest valid price of each (type, zone)."""
    newest: dict[SpotPool, tuple[datetime, int]] = {}
    faults: dict[SpotPool, str] = {}
    unreadable = 0
    for item in items:
        pool = (item.get("InstanceType"), item.get("AvailabilityZone"))
        at, price = item.get("Timestamp"), micro_usd(item.get("SpotPrice"))
        if not (isinstance(pool[0], str) and isinstance(pool[1], str) and isinstance(at, datetime)):
            unreadable += 1
            continue
        key = (pool[0], pool[1])
        if price is None:
            faults[key] = str(item.get("SpotPrice"))[:40]
        elif key not in newest or (at, price) > newest[key]:
            newest[key] = (at, price)
    return Priced(
        {key: price for key, (_, price) in newest.items()},
        {key: text for key, text in faults.items() if key not in newest},
        unreadable,
    )


class Pricing(AwsService):
    """The Price List API's GetProducts call for EC2."""

    async def on_demand(self, region: str) -> Priced[str]:
        """Prices by instance type. AWS lists bare metal under dedicated tenancy only."""
        documents: list[str | bytes] = []
        for tenancy, family in _TENANCIES:
            documents += await self._calls.pages(
                "get_products",
                "PriceList",
                ServiceCode="AmazonEC2",
                Filters=_filters(region, tenancy, family),
                MaxResults=100,
            )
        return await asyncio.to_thread(parse_price_list, documents)


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
