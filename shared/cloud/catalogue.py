"""The catalogue: every instance type of the region with zones and prices, ready for the planner.

    market = await read_market(cloud, settings)     EC2 and Price List, once in 12 hours
    catalogue = build_catalogue(market, settings)   pure

Its amounts are those of the usual settings; ``shared.domain.instance_sizes`` adapts them to a pool.

Prices (IT-05, IT-06): on demand from the Price List API, else from the last reading, else from the
bundled book with a warning. Spot from the price history; before it was ever read, the on-demand
price stands in; once it was read, a (type, zone) without an entry is not offered.

What may go wrong: types and zones are indispensable, so their errors are raised; prices are not, so
their errors become a warning. Conversion of 1,400 types takes a good tenth of a second and runs in
a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from shared.cloud.instance_model import ModelSettings, build_instance_type
from shared.cloud.reference_data import bundled_prices, network_bandwidth, vpc_limits
from shared.cloud.session import Cloud
from shared.domain.instance_types import Catalogue, InstanceType, Offering
from shared.domain.labels import ON_DEMAND, SPOT
from shared.errors import DovetailError
from shared.log import get_logger

log = get_logger(__name__)

T = TypeVar("T")


class Market(msgspec.Struct, frozen=True):
    """What AWS said, untouched by settings. ``spot`` is None until the history was read once."""

    region: str
    descriptions: tuple[dict[str, Any], ...]
    zones_by_type: dict[str, tuple[str, ...]]
    zone_ids: dict[str, str]
    on_demand: dict[str, int]
    spot: dict[tuple[str, str], int] | None


async def read_market(
    cloud: Cloud, settings: ModelSettings, *, previous: Market | None = None
) -> Market:
    """Read types, zones and prices together; prices that cannot be read come from ``previous``.

    Raises the ``shared.errors`` error of types or zones that cannot be read.
    """
    try:
        return await _read_together(cloud, settings, previous)
    except ExceptionGroup as failed:
        known = failed.subgroup(DovetailError)
        raise known.exceptions[0] if known else failed from failed


async def _read_together(cloud: Cloud, settings: ModelSettings, previous: Market | None) -> Market:
    async with asyncio.TaskGroup() as group:
        types = group.create_task(cloud.ec2.instance_types())
        offered = group.create_task(cloud.ec2.offerings())
        zones = group.create_task(cloud.ec2.zones())
        on_demand = group.create_task(_on_demand(cloud, settings, previous))
        spot = group.create_task(_optional(cloud.ec2.spot_prices(), "spot prices"))
    history = spot.result()
    return Market(
        region=cloud.region,
        descriptions=tuple(types.result()),
        zones_by_type=offered.result(),
        zone_ids=zones.result(),
        on_demand=on_demand.result(),
        spot=history if history is not None else _spot_of(previous),
    )


def _spot_of(market: Market | None) -> dict[tuple[str, str], int] | None:
    return None if market is None else market.spot


async def _optional(reading: Awaitable[T], what: str) -> T | None:
    try:
        return await reading
    except DovetailError as error:
        log.warning("keeping the last known prices", what=what, error=str(error))
        return None


async def _on_demand(
    cloud: Cloud, settings: ModelSettings, previous: Market | None
) -> dict[str, int]:
    """IT-05: no price API from an isolated VPC and for us-gov."""
    readable = not settings.isolated_vpc and not cloud.region.startswith("us-gov-")
    read = await _optional(cloud.pricing.on_demand(cloud.region), "on-demand") if readable else None
    if read:
        return read
    if previous is not None:
        return previous.on_demand
    log.warning("using the bundled price book", region=cloud.region)
    return await asyncio.to_thread(bundled_prices, cloud.region)


def price_offerings(
    description: Mapping[str, Any],
    zones: Iterable[str],
    *,
    on_demand: Mapping[str, int],
    spot: Mapping[tuple[str, str], int] | None,
) -> tuple[Offering, ...]:
    """IT-04: zones x capacity types that the type is sold as and whose price is known."""
    name: str = description["InstanceType"]
    sold_as = description.get("SupportedUsageClasses") or ()
    base = on_demand.get(name)
    found: list[Offering] = []
    for zone in sorted(zones):
        spot_price = base if spot is None else spot.get((name, zone))
        for capacity_type, price in ((ON_DEMAND, base), (SPOT, spot_price)):
            if price is not None and capacity_type in sold_as:
                found.append(Offering(zone, capacity_type, price))
    return tuple(found)


def build_catalogue(market: Market, settings: ModelSettings) -> Catalogue:
    """All types that have at least one offering, sorted by name. Pure."""
    limits, bandwidth = vpc_limits(), network_bandwidth()
    types: list[InstanceType] = []
    for description in market.descriptions:
        offerings = price_offerings(
            description,
            (
                z
                for z in market.zones_by_type.get(description["InstanceType"], ())
                if z in market.zone_ids
            ),
            on_demand=market.on_demand,
            spot=market.spot,
        )
        built = offerings and build_instance_type(
            description,
            offerings=offerings,
            region=market.region,
            settings=settings,
            limits=limits,
            bandwidth=bandwidth,
            zone_ids=market.zone_ids,
        )
        if built:
            types.append(built)
    types.sort(key=lambda one: one.name)
    return Catalogue(region=market.region, generation=generation_of(types), types=tuple(types))


def generation_of(types: Iterable[InstanceType]) -> str:
    """Content hash: 16 hex digits that change exactly when a type, a zone or a price changes."""
    digest = hashlib.blake2b(digest_size=8)
    encode = msgspec.json.Encoder(order="deterministic").encode
    for one in types:
        digest.update(encode(one))
    return digest.hexdigest()


async def load_catalogue(cloud: Cloud, settings: ModelSettings) -> Catalogue:
    """Read the market once and build the catalogue, off the event loop."""
    market = await read_market(cloud, settings)
    return await asyncio.to_thread(build_catalogue, market, settings)
