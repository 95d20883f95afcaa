"""Prices: text to integer micro-USD, and the documents of the Price List API (IT-05, IT-06)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.ec2 import newest_spot_prices
from shared.cloud.pricing import micro_usd, parse_price_list, parse_product, pricing_region
from shared.cloud.reference_data import bundled_prices


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
    parsed = parse_product(text)
    assert parsed is None or parsed[1] > 0


def test_a_strange_product_does_not_hide_the_others() -> None:
    documents = ["{", document("a.large", "x"), document("m5.large", "0.096"), "[]"]
    assert parse_price_list(documents) == {"m5.large": 96_000}


def test_only_hourly_prices_count_and_the_lowest_wins() -> None:
    documents = [
        document("m5.large", "0.2"),
        document("m5.large", "0.1"),
        document("m5.large", "0.01", unit="Quantity"),
    ]
    assert parse_price_list(documents) == {"m5.large": 100_000}


def test_china_is_priced_in_yuan() -> None:
    assert parse_product(document("m5.large", "", pricePerUnit={"CNY": "1.5"})) == (
        "m5.large",
        1_500_000,
    )


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
    """IT-05."""
    assert pricing_region(region) == home


def test_the_newest_spot_price_of_each_pool_counts() -> None:
    """IT-06."""
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def entry(price: str, minutes: int, zone: str = "us-west-2a") -> dict[str, Any]:
        return {
            "InstanceType": "m5.large",
            "AvailabilityZone": zone,
            "SpotPrice": price,
            "Timestamp": now - timedelta(minutes=minutes),
        }

    items = [entry("0.05", 9), entry("0.04", 1), entry("0.06", 5), entry("bad", 0)]
    assert newest_spot_prices([*items, entry("0.03", 2, "us-west-2b")]) == {
        ("m5.large", "us-west-2a"): 40_000,
        ("m5.large", "us-west-2b"): 30_000,
    }


def test_the_bundled_book_stands_in_for_every_region() -> None:
    """IT-05."""
    assert bundled_prices("us-east-1")["c5.large"] == 85_000
    assert bundled_prices("xx-nowhere-1") == bundled_prices("us-east-1")
