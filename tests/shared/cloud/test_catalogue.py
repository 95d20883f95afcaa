"""The catalogue: which types, zones and prices the planner sees (IT-01, IT-04..06)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from shared.cloud.catalogue import Market, build_catalogue, load_catalogue, read_market
from shared.cloud.instance_model import ModelSettings
from shared.cloud.reference_data import bundled_prices
from shared.cloud.session import Cloud
from shared.domain.instance_types import Catalogue, InstanceType, Offering
from shared.errors import Unauthorized

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ModelSettings()
SPOT_A = {("m5.large", "us-west-2a"): 30_000}


@pytest.fixture
def market(describe: Callable[[str], dict[str, Any]]) -> Market:
    """m5.large in two zones, with one spot pool."""
    return Market(
        region="us-west-2",
        descriptions=(describe("m5.large"),),
        zones_by_type={"m5.large": ("us-west-2a", "us-west-2b")},
        zone_ids={"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"},
        on_demand={"m5.large": 96_000},
        spot=SPOT_A,
    )


def offerings(market: Market, **changes: Any) -> tuple[Offering, ...]:
    catalogue = build_catalogue(msgspec.structs.replace(market, **changes), SETTINGS)
    return catalogue.types[0].offerings if catalogue.types else ()


def named(catalogue: Catalogue, name: str) -> InstanceType:
    return next(one for one in catalogue.types if one.name == name)


async def test_a_pool_without_spot_price_is_not_offered_once_history_was_read(
    market: Market,
) -> None:
    """IT-06."""
    assert offerings(market) == (
        Offering("us-west-2a", "on-demand", 96_000),
        Offering("us-west-2a", "spot", 30_000),
        Offering("us-west-2b", "on-demand", 96_000),
    )


async def test_before_the_first_history_spot_costs_as_much_as_on_demand(market: Market) -> None:
    """IT-06."""
    spot = [one for one in offerings(market, spot=None) if one.capacity_type == "spot"]
    assert [one.price_micro_usd_per_hour for one in spot] == [96_000, 96_000]


async def test_a_type_without_on_demand_price_is_sold_as_spot_only(market: Market) -> None:
    """IT-04: price known."""
    assert offerings(market, on_demand={}) == (Offering("us-west-2a", "spot", 30_000),)


async def test_a_type_that_cannot_be_bought_is_left_out(market: Market) -> None:
    assert offerings(market, on_demand={}, spot={}) == ()
    assert offerings(market, zones_by_type={}) == ()
    assert offerings(market, zone_ids={}) == ()


async def test_a_type_is_offered_only_as_it_is_sold(market: Market) -> None:
    """capacity-block is a third usage class that is no offering."""
    description = market.descriptions[0] | {"SupportedUsageClasses": ["spot", "capacity-block"]}
    found = offerings(market, descriptions=(description,))
    assert {one.capacity_type for one in found} == {"spot"}


async def test_the_generation_changes_exactly_with_the_content(market: Market) -> None:
    first = build_catalogue(market, SETTINGS)
    assert build_catalogue(market, SETTINGS) == first
    dearer = msgspec.structs.replace(market, on_demand={"m5.large": 96_001})
    assert build_catalogue(dearer, SETTINGS).generation != first.generation
    fewer_pods = ModelSettings(reserved_enis=1)
    assert build_catalogue(market, fewer_pods).generation != first.generation


async def test_the_region_loads_complete(cloud: Cloud) -> None:
    catalogue = await load_catalogue(cloud, SETTINGS)
    assert len(catalogue.types) > 500
    assert [one.name for one in catalogue.types] == sorted(one.name for one in catalogue.types)
    assert named(catalogue, "c5a.large").labels["karpenter.k8s.aws/instance-pods"] == ("29",)
    capacity_types = {o.capacity_type for o in named(catalogue, "m5.large").offerings}
    assert capacity_types == {"on-demand", "spot"}


async def test_without_the_price_api_the_bundled_book_is_used(cloud: Cloud, control: Any) -> None:
    """IT-05."""
    await control.fault("GetProducts", "AccessDeniedException", status=400)
    market = await read_market(cloud, SETTINGS)
    assert market.on_demand == bundled_prices("us-west-2")
    isolated = await read_market(cloud, ModelSettings(isolated_vpc=True), previous=None)
    assert isolated.on_demand == market.on_demand


async def test_prices_that_cannot_be_read_stay_as_they_were(
    cloud: Cloud, control: Any, market: Market
) -> None:
    """IT-05, IT-06."""
    await control.fault("GetProducts", "AccessDeniedException", status=400)
    await control.fault("DescribeSpotPriceHistory", "UnauthorizedOperation", status=403)
    kept = await read_market(cloud, SETTINGS, previous=market)
    assert (kept.on_demand, kept.spot) == (market.on_demand, SPOT_A)


async def test_types_that_cannot_be_read_are_an_error(cloud: Cloud, control: Any) -> None:
    await control.fault("DescribeInstanceTypes", "UnauthorizedOperation", status=403)
    with pytest.raises(Unauthorized, match="ec2:DescribeInstanceTypes"):
        await read_market(cloud, SETTINGS)
