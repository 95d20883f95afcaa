"""The catalogue: which types, zones and prices the planner sees (IT-01, IT-04..06)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.cloud.catalogue.building import (
    Market,
    build_catalogue,
    load_catalogue,
    read_market,
    with_memory,
)
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.cloud.catalogue.pricing import KnownPrices
from shared.cloud.catalogue.reference_data import bundled_prices
from shared.cloud.client.session import Cloud
from shared.domain.instance_types.types import (
    Catalogue,
    InstanceType,
    Offering,
    decode_catalogue,
    encode_catalogue,
)
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
    catalogue = build_catalogue(msgspec.structs.replace(market, **changes), SETTINGS).catalogue
    return catalogue.types[0].offerings if catalogue.types else ()


def named(catalogue: Catalogue, name: str) -> InstanceType:
    return next(one for one in catalogue.types if one.name == name)


async def test_a_pool_without_spot_price_is_not_offered_once_history_was_read(
    market: Market,
) -> None:
    """IT-06: spot prices."""
    assert offerings(market) == (
        Offering("us-west-2a", "on-demand", 96_000),
        Offering("us-west-2a", "spot", 30_000),
        Offering("us-west-2b", "on-demand", 96_000),
    )


async def test_before_the_first_history_spot_costs_as_much_as_on_demand(market: Market) -> None:
    """IT-06: spot prices."""
    spot = [one for one in offerings(market, spot=None) if one.capacity_type == "spot"]
    assert [one.price_micro_usd_per_hour for one in spot] == [96_000, 96_000]


async def test_a_type_without_on_demand_price_is_sold_as_spot_only(market: Market) -> None:
    """IT-04: price known."""
    assert offerings(market, on_demand={}) == (Offering("us-west-2a", "spot", 30_000),)


async def test_a_type_without_any_price_waits_for_one_beside_the_others(market: Market) -> None:
    """IT-04, NO-01: a preview type. What is not sold on demand has nothing that an overlay could price."""
    unknown = msgspec.structs.replace(market, on_demand={}, spot={})
    built = build_catalogue(unknown, SETTINGS).catalogue
    (kind,) = built.unpriced
    assert (built.types, kind.name) == ((), "m5.large")
    assert [(one.zone, one.capacity_type) for one in kind.offerings] == [
        ("us-west-2a", "on-demand"),
        ("us-west-2b", "on-demand"),
    ]
    assert decode_catalogue(encode_catalogue(built)) == built
    assert built.generation != build_catalogue(market, SETTINGS).catalogue.generation
    description = market.descriptions[0] | {"SupportedUsageClasses": ["spot"]}
    only_spot = msgspec.structs.replace(unknown, descriptions=(description,))
    assert build_catalogue(only_spot, SETTINGS).catalogue.unpriced == ()


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
    generation = first.catalogue.generation
    dearer = msgspec.structs.replace(market, on_demand={"m5.large": 96_001})
    assert build_catalogue(dearer, SETTINGS).catalogue.generation != generation
    fewer_pods = ModelSettings(reserved_enis=1)
    assert build_catalogue(market, fewer_pods).catalogue.generation != generation


async def test_a_malformed_type_is_told_by_name_and_the_others_stay(
    market: Market, describe: Callable[[str], dict[str, Any]]
) -> None:
    """IT-01: what EC2 says of one type cannot take the others away."""
    prices = {"m5.large": 96_000, "c5.large": 85_000}
    zones = market.zones_by_type | {"c5.large": ("us-west-2a",)}
    wrong: list[dict[str, Any]] = [
        {"MemoryInfo": {}},
        {"MemoryInfo": {"SizeInMiB": -4096}},
        {"VCpuInfo": {"DefaultVCpus": 0}},
        {"NetworkInfo": None},
        {"ProcessorInfo": []},
    ]
    for change in wrong:
        both = (describe("c5.large") | change, market.descriptions[0])
        mixed = msgspec.structs.replace(
            market, descriptions=both, on_demand=prices, zones_by_type=zones
        )
        built = build_catalogue(mixed, SETTINGS)
        assert [one.name for one in built.catalogue.types] == ["m5.large"], change
        assert [fault.partition(":")[0] for fault in built.faults] == ["c5.large"], change


JUNK: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([])
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_no_description_takes_the_others_away(
    data: st.DataObject, market: Market, describe: Callable[[str], dict[str, Any]]
) -> None:
    """IT-01: discovery of types."""
    description = describe("c5.large")
    group = data.draw(st.sampled_from(sorted(description.keys() - {"InstanceType"})))
    inner = description[group]
    if isinstance(inner, dict) and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(inner)))
        description[group] = {**inner, key: data.draw(JUNK)}
    else:
        description[group] = data.draw(JUNK)
    mixed = msgspec.structs.replace(
        market,
        descriptions=(description, *market.descriptions),
        zones_by_type=market.zones_by_type | {"c5.large": ("us-west-2a",)},
        on_demand={"m5.large": 96_000, "c5.large": 85_000},
    )
    built = build_catalogue(mixed, SETTINGS)
    readable = decode_catalogue(encode_catalogue(built.catalogue))
    assert "m5.large" in {one.name for one in readable.types}


async def test_learned_memory_is_a_new_generation_and_its_loss_the_old_one(market: Market) -> None:
    """IT-12: the planner adapts the estimate by it, which stays beside it."""
    first = build_catalogue(market, SETTINGS).catalogue
    estimate = first.types[0].capacity["memory"]
    learned = with_memory(first, {"m5.large": {"ami-1": estimate + 1, "ami-2": estimate}})
    assert learned.generation != first.generation
    assert learned.types[0].memory_by_image == {"ami-1": estimate + 1}
    assert learned.types[0].capacity == first.types[0].capacity
    assert with_memory(learned, {"m5.large": {"ami-1": estimate + 1}}) == learned
    assert with_memory(learned, {}) == first


@pytest.mark.slow
async def test_the_region_loads_complete(cloud: Cloud) -> None:
    built, market = await load_catalogue(cloud, SETTINGS)
    catalogue = built.catalogue
    assert (built.faults, market.stale) == ((), ())
    assert len(catalogue.types) > 500
    assert [one.name for one in catalogue.types] == sorted(one.name for one in catalogue.types)
    assert named(catalogue, "c5a.large").labels["karpenter.k8s.aws/instance-pods"] == ("29",)
    capacity_types = {o.capacity_type for o in named(catalogue, "m5.large").offerings}
    assert capacity_types == {"on-demand", "spot"}


@pytest.mark.nightly
async def test_without_the_price_api_the_bundled_book_is_used(cloud: Cloud, control: Any) -> None:
    """IT-05: on-demand prices."""
    await control.fault("GetProducts", "AccessDeniedException", status=400)
    market = await read_market(cloud, SETTINGS)
    assert market.on_demand == bundled_prices("us-west-2")
    (told,) = market.stale
    assert told.startswith("on-demand prices:")
    assert "pricing:GetProducts" in told
    # An older release's book does not outlive it.
    old = KnownPrices({"m5.large": 1})
    isolated = await read_market(cloud, ModelSettings(isolated_vpc=True), previous=old)
    assert isolated.on_demand == market.on_demand
    assert isolated.stale == ()


@pytest.mark.slow
async def test_prices_that_cannot_be_read_stay_as_they_were(
    cloud: Cloud, control: Any, market: Market
) -> None:
    """IT-05: on-demand prices; IT-06: spot prices."""
    # Not once: a call of an earlier test that was cut off may still arrive, and would use up the fault.
    await control.fault("GetProducts", "AccessDeniedException", status=400, count=20)
    await control.fault("DescribeSpotPriceHistory", "UnauthorizedOperation", status=403, count=20)
    kept = await read_market(cloud, SETTINGS, previous=market.prices)
    await control.post("reset", {})
    assert (kept.on_demand, kept.spot) == (market.on_demand, SPOT_A)
    assert [told.partition(" ")[0] for told in kept.stale] == ["on-demand", "spot"]


async def test_types_that_cannot_be_read_are_an_error(cloud: Cloud, control: Any) -> None:
    await control.fault("DescribeInstanceTypes", "UnauthorizedOperation", status=403)
    with pytest.raises(Unauthorized, match="ec2:DescribeInstanceTypes"):
        await read_market(cloud, SETTINGS)
