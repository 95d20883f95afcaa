"""karpenter.sh/v1alpha1 NodeOverlay (NO-01)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.v1.node_overlays import parse_node_overlay
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.overlays import (
    MICRO_USD_PER_HOUR,
    PARTS_PER_MILLION,
    Overlay,
    PriceAdjustment,
)
from tests.shared.api.conftest import document, json_values


def overlay(**spec: Any) -> dict[str, Any]:
    return document({"requirements": [], **spec})


def parsed(raw: dict[str, Any]) -> Overlay:
    return parse_node_overlay(raw).require("NodeOverlay/one")


def test_every_field_is_read() -> None:
    raw = overlay(
        requirements=[
            {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
            {"key": keys.NODE_POOL, "operator": "Exists"},
        ],
        price="0.0851",
        capacity={"example.com/fuse": 1},
        weight=10_000,
    )
    assert parsed(raw) == Overlay(
        uid="uid-1",
        name="one",
        weight=10_000,
        requirements=(
            Expression(keys.ARCH, "In", ("arm64",)),
            Expression(keys.NODE_POOL, "Exists"),
        ),
        price_micro_usd_per_hour=85_100,
        capacity={"example.com/fuse": 1},
    )


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("+0.01", MICRO_USD_PER_HOUR, 10_000),
        ("-1", MICRO_USD_PER_HOUR, -1_000_000),
        ("+10%", PARTS_PER_MILLION, 100_000),
        ("+250%", PARTS_PER_MILLION, 2_500_000),
        ("-15.5%", PARTS_PER_MILLION, -155_000),
        ("-100%", PARTS_PER_MILLION, -1_000_000),
        ("+.5", MICRO_USD_PER_HOUR, 500_000),
        ("-.25", MICRO_USD_PER_HOUR, -250_000),
        ("+.5%", PARTS_PER_MILLION, 5_000),
    ],
)
def test_an_adjustment_is_an_amount_or_a_share(text: str, kind: str, amount: int) -> None:
    found = parsed(overlay(priceAdjustment=text))
    assert found.price_adjustment == PriceAdjustment(kind, amount)
    assert found.price_micro_usd_per_hour is None


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"price": "1", "priceAdjustment": "+1"}, "spec.priceAdjustment"),
        ({"price": "-1"}, "spec.price"),
        ({"price": 1}, "spec.price"),
        ({"priceAdjustment": "10%"}, "spec.priceAdjustment"),
        ({"priceAdjustment": "-.5%"}, "spec.priceAdjustment"),
        ({"priceAdjustment": "+."}, "spec.priceAdjustment"),
        ({"priceAdjustment": "-101%"}, "spec.priceAdjustment"),
        ({"priceAdjustment": "-100.1%"}, "spec.priceAdjustment"),
        ({"capacity": {"cpu": "1"}}, "spec.capacity.cpu"),
        ({"capacity": {"pods": "1"}}, "spec.capacity.pods"),
        ({"weight": 0}, "spec.weight"),
        ({"weight": 10_001}, "spec.weight"),
        ({"requirements": None}, "spec.requirements"),
        (
            {"requirements": [{"key": "x", "operator": "NotIn", "values": []}]},
            "spec.requirements[0].values",
        ),
        (
            {"requirements": [{"key": "x", "operator": "Exists", "minValues": 2}]},
            "spec.requirements[0].minValues",
        ),
        ({"requirements": [{"key": "x", "operator": "In"}]}, "spec.requirements[0].values"),
    ],
)
def test_each_fault_names_its_field(spec: dict[str, Any], field: str) -> None:
    (fault,) = parse_node_overlay(overlay(**spec)).faults
    assert str(fault).startswith(f"{field}: ")


WORDS = (
    "requirements", "key", "operator", "values", "In", "price", "priceAdjustment", "capacity", "weight",
    "cpu", "example.com/x", "+1", "minValues",
)  # fmt: skip


@given(json_values(*WORDS), st.dictionaries(st.sampled_from(WORDS), json_values(*WORDS)))
def test_any_document_is_judged_and_none_raises(anything: Any, spec: dict[str, Any]) -> None:
    for raw in (document(anything), overlay(**spec), {"metadata": anything}):
        found = parse_node_overlay(raw)
        assert (found.record is None) == bool(found.faults)
