"""Prices: text to integer micro-USD, and the documents of the Price List API (IT-05, IT-06)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.catalogue.amounts import micro_usd
from shared.cloud.catalogue.pricing import (
    KnownPrices,
    Priced,
    decode_prices,
    encode_prices,
    newest_spot_prices,
    parse_price_list,
    parse_product,
    pricing_region,
)
from shared.cloud.catalogue.reference_data import bundled_prices


def document(name: str, usd: str, **changes: Any) -> str:
    dimension = {"unit": "Hrs", "pricePerUnit": {"USD": usd}} | changes
    terms = {"OnDemand": {"T": {"priceDimensions": {"D": dimension}}}}
    return json.dumps({"product": {"attributes": {"instanceType": name}}, "terms": terms})


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("0.0960000000", 96_000),
        ("0.0000004", 1),
        ("0.0000015", 2),
        ("27.20", 27_200_000),
        ("0", None),
        ("-1", None),
        ("NaN", None),
        ("Infinity", None),
        ("1e9", None),
        ("", None),
        (None, None),
    ],
)
def test_prices_become_micro_usd(text: object, price: int | None) -> None:
    assert micro_usd(text) == price


@given(st.integers(1, 10**11))
def test_a_price_in_whole_micro_usd_is_exact(price: int) -> None:
    assert micro_usd(f"{Decimal(price) / 1_000_000:f}") == price


@given(st.text() | st.binary() | st.floats() | st.none())
def test_no_text_breaks_the_price_parser(text: object) -> None:
    price = micro_usd(text)
    assert price is None or price > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["product", "attributes", "instanceType", "terms", "OnDemand", "pricePerUnit"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@given(JSON.map(json.dumps) | st.text())
def test_no_document_breaks_the_product_parser(text: str) -> None:
    assert parse_product(text) is None
    assert parse_price_list([text]) == Priced({}, {}, 1)


def test_a_strange_product_does_not_hide_the_others() -> None:
    documents = ["{", document("a.large", "x"), document("m5.large", "0.096"), "[]"]
    assert parse_price_list(documents) == Priced({"m5.large": 96_000}, {"a.large": "x"}, 2)


@pytest.mark.parametrize("text", ["-0.096", "0", "NaN", "1e9", "free"])
def test_a_price_that_cannot_be_true_is_told_with_its_type(text: str) -> None:
    """IT-05: what was known of that type before goes on counting, and no other type is touched."""
    found = parse_price_list([document("m5.large", text), document("c5.large", "0.085")])
    assert found.faults == {"m5.large": text}
    known = {"m5.large": 96_000, "c5.large": 1, "gone.large": 2}
    assert found.kept(known) == {"m5.large": 96_000, "c5.large": 85_000}


def test_entries_that_name_no_type_may_have_been_anyones() -> None:
    """IT-05: a type that is missing beside them keeps its price."""
    found = parse_price_list(["{", document("c5.large", "0.085")])
    known = {"m5.large": 96_000, "c5.large": 1}
    assert found.kept(known) == {"m5.large": 96_000, "c5.large": 85_000}
    assert parse_price_list([document("c5.large", "0.085")]).kept(known) == {"c5.large": 85_000}


def test_a_second_price_that_can_be_true_is_believed() -> None:
    found = parse_price_list([document("m5.large", "-1"), document("m5.large", "0.096")])
    assert found == Priced({"m5.large": 96_000}, {})


def test_only_hourly_prices_count_and_the_lowest_wins() -> None:
    documents = [
        document("m5.large", "0.2"),
        document("m5.large", "0.1"),
        document("m5.large", "0.01", unit="Quantity"),
    ]
    assert parse_price_list(documents) == Priced({"m5.large": 100_000}, {})


def test_china_is_priced_in_yuan() -> None:
    documents = [document("m5.large", "", pricePerUnit={"CNY": "1.5"})]
    assert parse_price_list(documents).prices == {"m5.large": 1_500_000}


@pytest.mark.parametrize(
    ("region", "home"),
    [
        ("us-west-2", "us-east-1"),
        ("ap-southeast-1", "ap-south-1"),
        ("eu-west-1", "eu-central-1"),
        ("cn-north-1", "cn-northwest-1"),
        ("sa-east-1", "us-east-1"),
    ],
)
def test_each_region_asks_its_nearest_price_endpoint(region: str, home: str) -> None:
    """IT-05: on-demand prices."""
    assert pricing_region(region) == home


def test_the_newest_spot_price_of_each_pool_counts() -> None:
    """IT-06: spot prices."""
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def entry(price: str, minutes: int, zone: str = "us-west-2a") -> dict[str, Any]:
        return {
            "InstanceType": "m5.large",
            "AvailabilityZone": zone,
            "SpotPrice": price,
            "Timestamp": now - timedelta(minutes=minutes),
        }

    items = [entry("0.05", 9), entry("0.04", 1), entry("0.06", 5), entry("bad", 0)]
    items += [entry("0.03", 2, "us-west-2b"), entry("-1", 0, "us-west-2c"), {"SpotPrice": "1"}]
    assert newest_spot_prices(items) == Priced(
        {("m5.large", "us-west-2a"): 40_000, ("m5.large", "us-west-2b"): 30_000},
        {("m5.large", "us-west-2c"): "-1"},
        1,
    )


PRICES = st.dictionaries(st.text(max_size=5), st.integers(1, 10**12), max_size=4)
SPOT = st.dictionaries(
    st.tuples(st.text(max_size=5), st.text(max_size=5)), st.integers(1, 10**12), max_size=4
)


@given(st.builds(KnownPrices, PRICES, st.none() | SPOT))
def test_known_prices_survive_being_stored(known: KnownPrices) -> None:
    assert decode_prices(encode_prices(known)) == known


@given(st.binary())
def test_no_stored_prices_break_the_decoder(document: bytes) -> None:
    found = decode_prices(document)
    assert found is None or isinstance(found, KnownPrices)


def test_the_bundled_book_stands_in_for_every_region() -> None:
    """IT-05: on-demand prices."""
    assert bundled_prices("us-east-1")["c5.large"] == 85_000
    assert bundled_prices("xx-nowhere-1") == bundled_prices("us-east-1")
