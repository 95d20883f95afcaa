"""The catalogue: every instance type of the region with zones and prices, ready for the planner.

    market = await read_market(cloud, settings)     EC2 and Price List, once in 12 hours
    built = build_catalogue(market, settings)       pure

Its capacities are those of default kubelet settings; ``shared.domain.instance_types.sizes`` adapts them to a pool.

On-demand prices (IT-05, IT-06) come from the Price List API, else from the previous read, else from
the bundled price list. Spot prices come from the price history; until it was read once, the
on-demand price is used instead; afterwards a (type, zone) without an entry is not offered.

What may go wrong: types and zones are required, so their errors are raised; prices are not, so their errors are listed
in ``Market.stale``. A type with an invalid description or price is listed in ``faults`` and left out, and the others
stay. The conversion of 1,400 types takes more than 0.1 s and runs in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from shared.cloud.catalogue.instance_model import ModelSettings, build_instance_type
from shared.cloud.catalogue.pricing import KnownPrices, Priced, SpotPool
from shared.cloud.catalogue.reference_data import bundled_prices, network_bandwidth, vpc_limits
from shared.cloud.client.session import Cloud
from shared.concurrency.tasks import TaskGroup
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering
from shared.domain.labels import ON_DEMAND, SPOT
from shared.domain.resources import MEMORY
from shared.errors import DovetailError

Key = TypeVar("Key")
Learned = Mapping[str, Mapping[str, int]]
"""Instance type -> image id -> bytes of memory that nodes reported (IT-12)."""
MALFORMED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, msgspec.ValidationError,
)  # fmt: skip
"""The errors that a description without a required field raises."""


class Market(msgspec.Struct, frozen=True):
    """AWS's answers, independent of settings. ``spot`` is None until the price history was read once."""

    region: str
    descriptions: tuple[dict[str, Any], ...]
    zones_by_type: dict[str, tuple[str, ...]]
    zone_ids: dict[str, str]
    on_demand: dict[str, int]
    spot: dict[SpotPool, int] | None
    faults: tuple[str, ...] = ()
    """Invalid prices, each with its instance type."""
    stale: tuple[str, ...] = ()
    """Price sources that could not be read now, each with the reason."""

    @property
    def prices(self) -> KnownPrices:
        """The prices that the next read falls back on."""
        return KnownPrices(self.on_demand, self.spot)


class Built(msgspec.Struct, frozen=True):
    """A catalogue, and the faults of types and prices that are left out of it."""

    catalogue: Catalogue
    faults: tuple[str, ...] = ()


class _Source(msgspec.Struct, frozen=True):
    """The prices of one source, and its faults."""

    prices: dict[Any, int] | None
    faults: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


async def read_market(
    cloud: Cloud, settings: ModelSettings, *, previous: KnownPrices | None = None
) -> Market:
    """Read types, zones and prices together; prices that cannot be read come from ``previous``.

    Raises the ``shared.errors`` error of types or zones that cannot be read.
    """
    try:
        return await _read_together(cloud, settings, previous)
    except ExceptionGroup as failed:
        known = failed.subgroup(DovetailError)
        raise known.exceptions[0] if known else failed from failed


async def _read_together(
    cloud: Cloud, settings: ModelSettings, previous: KnownPrices | None
) -> Market:
    async with TaskGroup() as group:
        types = group.create_task(cloud.ec2.instance_types())
        offered = group.create_task(cloud.ec2.offerings())
        zones = group.create_task(cloud.ec2.zones())
        listed = group.create_task(_on_demand(cloud, settings, previous))
        history = group.create_task(
            _source(cloud.ec2.spot_prices(), "spot", previous.spot if previous else None)
        )
    on_demand, spot = listed.result(), history.result()
    return Market(
        region=cloud.region,
        descriptions=tuple(types.result()),
        zones_by_type=offered.result(),
        zone_ids=zones.result(),
        on_demand=on_demand.prices or {},
        spot=spot.prices,
        faults=on_demand.faults + spot.faults,
        stale=on_demand.stale + spot.stale,
    )


async def _source(
    reading: Awaitable[Priced[Key]], what: str, previous: Mapping[Key, int] | None
) -> _Source:
    """The prices that were read; without an answer, or with an empty one, the previous prices."""
    try:
        read = await reading
    except DovetailError as error:
        return _Source(_copied(previous), stale=(f"{what} prices: {error}",))
    if not read.prices:
        return _Source(_copied(previous), stale=(f"{what} prices: AWS listed none",))
    faults = [f"{_shown(key)}: {text!r} is no {what} price" for key, text in read.faults.items()]
    if read.unreadable:
        faults.append(f"{what} prices: {read.unreadable} entries cannot be read")
    return _Source(read.kept(previous or {}), tuple(faults))


def _copied(prices: Mapping[Key, int] | None) -> dict[Key, int] | None:
    return None if prices is None else dict(prices)


def _shown(key: object) -> str:
    return " in ".join(key) if isinstance(key, tuple) else str(key)


async def _on_demand(
    cloud: Cloud, settings: ModelSettings, previous: KnownPrices | None
) -> _Source:
    """An isolated VPC and us-gov regions have no price API: the bundled price list is used there (IT-05)."""
    if settings.isolated_vpc or cloud.region.startswith("us-gov-"):
        return _Source(await asyncio.to_thread(bundled_prices, cloud.region))
    known = previous.on_demand if previous else None
    read = await _source(cloud.pricing.on_demand(cloud.region), "on-demand", known)
    if read.prices:
        return read
    return replace(read, prices=await asyncio.to_thread(bundled_prices, cloud.region))


def price_offerings(
    description: Mapping[str, Any],
    zones: Iterable[str],
    *,
    on_demand: Mapping[str, int],
    spot: Mapping[SpotPool, int] | None,
) -> tuple[Offering, ...]:
    """The type's offerings: each zone x supported capacity type with a known price (IT-04)."""
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


def unpriced_offerings(
    description: Mapping[str, Any], zones: Iterable[str]
) -> tuple[Offering, ...]:
    """Those of a type for which AWS names no price: on demand, at 0 until a NodeOverlay says more. Spot has no price
    before it was sold."""
    if ON_DEMAND not in (description.get("SupportedUsageClasses") or ()):
        return ()
    return tuple(Offering(zone, ON_DEMAND, 0) for zone in zones)


def build_catalogue(market: Market, settings: ModelSettings) -> Built:
    """All types that have at least one offering, with and without a price, sorted by name. Pure."""
    types: list[InstanceType] = []
    unpriced: list[InstanceType] = []
    faults = list(market.faults)
    for description in market.descriptions:
        try:
            built = _type(description, market, settings)
        except MALFORMED as error:
            name = str(description.get("InstanceType") or "a type without name")[:60]
            faults.append(f"{name}: cannot be read: {error!r:.100}")
            continue
        if built is not None:
            (types if has_price(built) else unpriced).append(built)
    for found in (types, unpriced):
        found.sort(key=lambda one: one.name)
    generation = generation_of((*types, *unpriced))
    catalogue = Catalogue(market.region, generation, tuple(types), unpriced=tuple(unpriced))
    return Built(catalogue, tuple(faults))


def has_price(kind: InstanceType) -> bool:
    """AWS names the price of at least one offering. A real one is never 0."""
    return any(offering.price_micro_usd_per_hour for offering in kind.offerings)


def _type(
    description: Mapping[str, Any], market: Market, settings: ModelSettings
) -> InstanceType | None:
    """The catalogue's record of a type; None for a type without offerings or one that Dovetail does not handle.

    Raises MALFORMED.
    """
    zones = market.zones_by_type.get(description["InstanceType"], ())
    known = sorted(zone for zone in zones if zone in market.zone_ids)
    offerings = price_offerings(
        description, known, on_demand=market.on_demand, spot=market.spot
    ) or unpriced_offerings(description, known)
    if not offerings:
        return None
    built = build_instance_type(
        description,
        offerings=offerings,
        region=market.region,
        settings=settings,
        limits=vpc_limits(),
        bandwidth=network_bandwidth(),
        zone_ids=market.zone_ids,
    )
    # A value of a wrong type would make the whole catalogue undecodable for its readers, so decode each type here.
    return built and msgspec.json.decode(msgspec.json.encode(built), type=InstanceType)


def with_memory(catalogue: Catalogue, learned: Learned) -> Catalogue:
    """The catalogue with the memory that nodes reported; a new generation when a size differs (IT-12). Pure.

    A size that equals the estimate is left out: it would change only the generation.
    """
    types, unpriced = (
        tuple(_with_learned(one, learned.get(one.name, {})) for one in listed)
        for listed in (catalogue.types, catalogue.unpriced)
    )
    if (types, unpriced) == (catalogue.types, catalogue.unpriced):
        return catalogue
    generation = generation_of((*types, *unpriced))
    return replace(catalogue, generation=generation, types=types, unpriced=unpriced)


def _with_learned(kind: InstanceType, learned: Mapping[str, int]) -> InstanceType:
    estimate = kind.capacity.get(MEMORY)
    differing = {image: size for image, size in sorted(learned.items()) if size != estimate}
    if differing == kind.memory_by_image:
        return kind
    return replace(kind, memory_by_image=differing)


def generation_of(types: Iterable[InstanceType]) -> str:
    """A content hash of 16 hex digits, which changes when a type, a zone or a price changes."""
    digest = hashlib.blake2b(digest_size=8)
    encode = msgspec.json.Encoder(order="deterministic").encode
    for one in types:
        digest.update(encode(one))
    return digest.hexdigest()


async def load_catalogue(
    cloud: Cloud, settings: ModelSettings, *, previous: KnownPrices | None = None
) -> tuple[Built, Market]:
    """Read the market once and build the catalogue, off the event loop."""
    market = await read_market(cloud, settings, previous=previous)
    return await asyncio.to_thread(build_catalogue, market, settings), market
