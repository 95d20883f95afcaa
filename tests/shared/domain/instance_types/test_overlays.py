"""Corrections of prices and resources (NO-01)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.overlays import (
    MICRO_USD_PER_HOUR,
    PARTS_PER_MILLION,
    Judged,
    Overlay,
    PriceAdjustment,
    judged,
    overlaid,
    scope_of,
)
from shared.domain.instance_types.types import (
    Catalogue,
    InstanceType,
    decode_catalogue,
    encode_catalogue,
    of_pool,
)
from shared.domain.pools.generations import V1
from tests.support.planning.builders import ZONES, make_catalogue, make_pool, make_type

LARGE, XLARGE = make_type("m5.large"), make_type("m5.xlarge", 4, 16, 192_000)
CATALOGUE = make_catalogue((LARGE, XLARGE))
ONLY_LARGE = Expression(keys.INSTANCE_TYPE, "In", ("m5.large",))
HALF = PriceAdjustment(PARTS_PER_MILLION, -500_000)


def overlay(name: str = "one", **changes: Any) -> Overlay:
    return Overlay(uid=f"uid-{name}", name=name, **changes)


def judge(*overlays: Overlay) -> Judged:
    return judged(overlays, CATALOGUE)


def corrected(*overlays: Overlay) -> Catalogue:
    """The catalogue with those that hold."""
    return overlaid(CATALOGUE, judge(*overlays).used)


def kind(catalogue: Catalogue, name: str) -> InstanceType:
    return next(one for one in catalogue.types if one.name == name)


def prices(catalogue: Catalogue, name: str) -> set[int]:
    return {o.price_micro_usd_per_hour for o in kind(catalogue, name).offerings}


@pytest.mark.parametrize(
    ("said", "price"),
    [
        ({"price_micro_usd_per_hour": 85_100}, 85_100),
        ({"price_adjustment": HALF}, 48_000),
        ({"price_adjustment": PriceAdjustment(PARTS_PER_MILLION, 100_000)}, 105_600),
        ({"price_adjustment": PriceAdjustment(MICRO_USD_PER_HOUR, 4_000)}, 100_000),
        ({"price_adjustment": PriceAdjustment(MICRO_USD_PER_HOUR, -1_000_000)}, 0),
    ],
)
def test_a_price_is_replaced_or_adjusted_and_never_below_nothing(
    said: dict[str, Any], price: int
) -> None:
    found = corrected(overlay(requirements=(ONLY_LARGE,), **said))
    assert prices(found, "m5.large") == {price}
    assert all(o.overlaid for o in kind(found, "m5.large").offerings)
    assert kind(found, "m5.xlarge") is XLARGE


def test_an_overlay_may_mean_some_offerings_of_a_type() -> None:
    """Zone and capacity type belong to the offering."""
    here = Expression(keys.ZONE, "In", ZONES[:1])
    found = corrected(overlay(requirements=(here,), price_micro_usd_per_hour=5))
    by_zone = {o.zone: o.price_micro_usd_per_hour for o in kind(found, "m5.large").offerings}
    assert by_zone == {ZONES[0]: 5, **dict.fromkeys(ZONES[1:], 96_000)}
    spot = Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT,))
    untouched = corrected(overlay(requirements=(spot,), price_micro_usd_per_hour=5))
    assert prices(untouched, "m5.large") == {96_000}


def test_a_type_gets_extended_resources() -> None:
    found = corrected(overlay(requirements=(ONLY_LARGE,), capacity={"example.com/fuse": 2}))
    large = kind(found, "m5.large")
    assert large.allocatable()["example.com/fuse"] == 2
    assert prices(found, "m5.large") == {96_000}
    assert not any(o.overlaid for o in large.offerings)


def test_the_heaviest_holds_for_each_thing_it_says() -> None:
    """A lighter one holds where the heavier says nothing."""
    heavy = overlay("heavy", weight=10, price_micro_usd_per_hour=7)
    light = overlay("light", weight=1, price_micro_usd_per_hour=9, capacity={"example.com/a": 1})
    found = corrected(light, heavy)
    assert prices(found, "m5.large") == {7}
    assert kind(found, "m5.large").capacity["example.com/a"] == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"price_micro_usd_per_hour": 7}, {"price_micro_usd_per_hour": 9}),
        ({"capacity": {"example.com/a": 1}}, {"capacity": {"example.com/a": 2}}),
    ],
    ids=["prices", "resources"],
)
def test_of_equal_weight_that_disagree_none_holds(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Which of them wins must not depend on their names."""
    said = judge(overlay("a", **first), overlay("b", requirements=(ONLY_LARGE,), **second))
    assert said.used == ()
    assert said.refused == {
        "a": "b conflicts with this overlay for m5.large; give one of them another weight",
        "b": "a conflicts with this overlay for m5.large; give one of them another weight",
    }


def test_those_that_agree_or_never_meet_all_hold() -> None:
    other = Expression(keys.INSTANCE_TYPE, "In", ("m5.xlarge",))
    names = [
        one.name
        for one in judge(
            overlay("a", requirements=(ONLY_LARGE,), price_micro_usd_per_hour=7),
            overlay("b", requirements=(other,), price_micro_usd_per_hour=9),
            overlay("c", requirements=(ONLY_LARGE,), price_micro_usd_per_hour=7),
        ).used
    ]
    assert names == ["a", "b", "c"]


def test_a_type_without_a_price_is_there_once_an_overlay_says_one() -> None:
    """In the zones that the overlay means, and with its resources. An adjustment has nothing to adjust."""
    unpriced = make_type("m5.preview", price=0)
    catalogue = replace(CATALOGUE, unpriced=(unpriced,))
    only = Expression(keys.INSTANCE_TYPE, "In", ("m5.preview",))
    one_zone = Expression(keys.ZONE, "In", ZONES[:1])

    def with_overlays(*overlays: Overlay) -> Catalogue:
        return overlaid(catalogue, judged(overlays, catalogue).used)

    assert [one.name for one in with_overlays().types] == ["m5.large", "m5.xlarge"]
    half = overlay("half", requirements=(only,), price_adjustment=HALF, weight=9)
    assert with_overlays(half).types == CATALOGUE.types
    cost = overlay(
        requirements=(only, one_zone), price_micro_usd_per_hour=80_000, capacity={"a": 1}
    )
    found = with_overlays(half, cost)
    assert [one.name for one in found.types] == ["m5.large", "m5.preview", "m5.xlarge"]
    assert prices(found, "m5.preview") == {80_000}
    assert [o.zone for o in kind(found, "m5.preview").offerings] == [ZONES[0]]
    assert kind(found, "m5.preview").capacity["a"] == 1


POOLS = tuple(
    make_pool(name, generation_api=V1, labels={"team": team}, node_class="gpu")
    for name, team in (("red", "a"), ("blue", "b"), ("green", "b"))
)
SCOPES = tuple(one for one in map(scope_of, POOLS) if one is not None)


def by_pool(*overlays: Overlay, name: str = "m5.large") -> dict[str, set[int]]:
    """Pool -> prices of the type there; "" for a pool that nobody knows."""
    found = overlaid(CATALOGUE, judged(overlays, CATALOGUE, SCOPES).used, SCOPES)
    assert decode_catalogue(encode_catalogue(found)) == found
    pools = ["", *(pool.key for pool in POOLS)]
    return {
        key.removeprefix("NodePool/"): {
            one.price_micro_usd_per_hour for one in of_pool(kind(found, name), key).offerings
        }
        for key in pools
    }


USUALLY = ("", "red", "blue", "green")


@pytest.mark.parametrize(
    ("requirement", "pools"),
    [
        (Expression(keys.NODE_POOL, "In", ("red", "green")), ("red", "green")),
        (Expression(keys.NODE_POOL, "NotIn", ("red",)), ("blue", "green")),
        (Expression("team", "In", ("b", "c")), ("blue", "green")),
        (Expression("team", "Exists"), ("red", "blue", "green")),
        (Expression("tier", "DoesNotExist"), ("red", "blue", "green")),
        (Expression("tier", "Exists"), ()),
        (Expression(keys.PROVISIONER_NAME, "Exists"), ()),
        (Expression(keys.NODE_CLASS, "In", ("gpu",)), ("red", "blue", "green")),
    ],
)
def test_an_overlay_that_requires_labels_of_pools_holds_for_their_machines_alone(
    requirement: Expression, pools: tuple[str, ...]
) -> None:
    said = overlay(requirements=(ONLY_LARGE, requirement), price_micro_usd_per_hour=5)
    assert by_pool(said) == {name: {5 if name in pools else 96_000} for name in USUALLY}
    assert by_pool(said, name="m5.xlarge") == {name: {192_000} for name in USUALLY}


def test_of_overlays_for_all_and_for_a_pool_the_heavier_holds() -> None:
    red = Expression(keys.NODE_POOL, "In", ("red",))
    of_all = overlay("all", price_adjustment=HALF, capacity={"a": 1, "b": 1}, weight=5)
    lighter = overlay("lighter", requirements=(red,), price_micro_usd_per_hour=5, weight=1)
    heavier = overlay(
        "heavier", requirements=(red,), price_micro_usd_per_hour=6, capacity={"b": 2}, weight=9
    )
    halves = {name: {48_000} for name in USUALLY}
    assert by_pool(of_all, lighter) == halves
    assert by_pool(of_all, lighter, heavier) == {**halves, "red": {6}}
    found = overlaid(CATALOGUE, judged((of_all, heavier), CATALOGUE, SCOPES).used, SCOPES)
    large = kind(found, "m5.large")
    assert (large.capacity["b"], of_pool(large, "NodePool/red").capacity["b"]) == (1, 2)
    assert of_pool(large, "NodePool/red").capacity["a"] == 1


def test_overlays_conflict_only_where_both_hold() -> None:
    def said(pool: str, price: int) -> Overlay:
        wanted = Expression(keys.NODE_POOL, "In", (pool,))
        return overlay(f"{pool}-{price}", requirements=(wanted,), price_micro_usd_per_hour=price)

    assert judged((said("red", 1), said("blue", 2)), CATALOGUE, SCOPES).refused == {}
    assert set(judged((said("red", 1), said("red", 2)), CATALOGUE, SCOPES).refused) == {
        "red-1",
        "red-2",
    }
    of_all = overlay("all", price_micro_usd_per_hour=3)
    assert set(judged((said("red", 1), of_all), CATALOGUE, SCOPES).refused) == {"all", "red-1"}


def test_a_type_without_a_price_may_have_one_for_a_pool() -> None:
    unpriced = make_type("m5.preview", price=0)
    catalogue = replace(CATALOGUE, unpriced=(unpriced,))
    wanted = (
        Expression(keys.INSTANCE_TYPE, "In", ("m5.preview",)),
        Expression(keys.NODE_POOL, "In", ("red",)),
    )
    said = overlay(requirements=wanted, price_micro_usd_per_hour=7)
    found = kind(overlaid(catalogue, (said,), SCOPES), "m5.preview")
    assert found.offerings == ()
    own = of_pool(found, "NodePool/red").offerings
    assert {o.price_micro_usd_per_hour for o in own} == {7}
    assert {o.zone for o in own} == set(ZONES)


@pytest.mark.parametrize("key", [keys.ZONE_ID])
def test_what_no_type_can_meet_is_refused_by_name(key: str) -> None:
    said = judge(overlay(requirements=(Expression(key, "Exists"),), price_micro_usd_per_hour=1))
    assert said.used == ()
    assert said.refused == {"one": f"{key} is not a property of an instance type; remove it"}


def test_without_overlays_the_catalogue_is_the_same_object() -> None:
    assert overlaid(CATALOGUE, ()) is CATALOGUE


_OVERLAYS = st.lists(
    st.builds(
        overlay,
        st.sampled_from("abcdef"),
        weight=st.integers(0, 2),
        price_micro_usd_per_hour=st.none() | st.integers(0, 2),
        requirements=st.sampled_from([(), (ONLY_LARGE,)]),
    ),
    unique_by=lambda one: one.name,
    max_size=6,
)


@given(_OVERLAYS, st.randoms(use_true_random=False))
def test_the_order_of_overlays_means_nothing(overlays: list[Overlay], random: Any) -> None:
    """And what holds contradicts nothing."""
    said = judge(*overlays)
    random.shuffle(overlays)
    again = judge(*overlays)
    assert again.used == said.used
    assert set(again.refused) == set(said.refused)
    assert judged(said.used, CATALOGUE).refused == {}
