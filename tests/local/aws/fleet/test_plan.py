"""Fleet planning as algebra: no pool gives more than it has, and the order is the strategy's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws.fleet.plan import UNLIMITED, Pool, available, plan, plan_within_one

ZONES = ("us-west-2a", "us-west-2b")
TYPES = ("m5.large", "c5.large", "r5.large")

pools = st.lists(
    st.builds(
        Pool,
        instance_type=st.sampled_from(TYPES),
        zone=st.sampled_from(ZONES),
        capacity_type=st.just("spot"),
        price=st.floats(0.01, 10),
        priority=st.one_of(st.none(), st.floats(0, 100)),
    ),
    min_size=1,
    max_size=6,
)
capacities = st.dictionaries(
    st.tuples(st.sampled_from(TYPES), st.sampled_from(ZONES), st.just("spot")), st.integers(0, 5)
)
strategies = st.sampled_from(
    ["lowest-price", "price-capacity-optimized", "capacity-optimized", "prioritized", "diversified"]
)


@given(pools, st.integers(1, 20), strategies, capacities)
def test_a_plan_gives_all_that_is_wanted_or_all_that_there_is(
    pools: Any, want: Any, strategy: Any, capacity: Any
) -> None:
    found = plan(pools, want, strategy, capacity)
    keys = {pool.key for pool in pools}
    most = sum(capacity.get(key, UNLIMITED) for key in keys)
    assert found.fulfilled == min(want, most)
    for key in keys:
        granted = sum(number for pool, number in found.grants if pool.key == key)
        assert granted <= capacity.get(key, UNLIMITED)


@given(pools, st.integers(1, 20), capacities)
def test_the_lowest_price_is_paid(pools: Any, want: Any, capacity: Any) -> None:
    found = plan(pools, want, "lowest-price", capacity)
    prices = [pool.price for pool, _ in found.grants]
    assert prices == sorted(prices)


@given(pools, st.integers(1, 20), strategies, capacities)
def test_an_exhausted_pool_really_had_less_than_asked(
    pools: Any, want: Any, strategy: Any, capacity: Any
) -> None:
    for pool in plan(pools, want, strategy, capacity).exhausted:
        assert available(capacity, pool) < want


@given(pools, st.integers(1, 20), capacities)
def test_one_zone_means_one_zone(pools: Any, want: Any, capacity: Any) -> None:
    found = plan_within_one(pools, want, "lowest-price", capacity, lambda pool: pool.zone)
    assert len({pool.zone for pool, _ in found.grants}) <= 1


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("lowest-price", "cheap"), ("prioritized", "first"), ("capacity-optimized", "deep")],
)
def test_each_strategy_has_its_own_first_choice(strategy: str, expected: str) -> None:
    choice = [
        Pool("cheap", "a", "spot", 1.0, 3.0),
        Pool("first", "a", "spot", 3.0, 1.0),
        Pool("deep", "a", "spot", 2.0, 2.0),
    ]
    capacity = {("cheap", "a", "spot"): 1, ("first", "a", "spot"): 1, ("deep", "a", "spot"): 9}
    (granted,) = plan(choice, 1, strategy, capacity).grants
    assert granted[0].instance_type == expected


def test_diversified_takes_one_of_each_in_turn() -> None:
    choice = [Pool(name, "a", "spot", 1.0, None) for name in ("x", "y", "z")]
    assert [number for _, number in plan(choice, 5, "diversified", {}).grants] == [2, 2, 1]
