"""Prices: the listed ones, the formula, and spot shares that never change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws.catalogue.prices import PriceBook, formula_price, load_listed_prices, spot_share
from local.aws.catalogue.types import Gpu, InstanceTypeFacts


def facts(name: str, architecture: str = "x86_64", gpus: int = 0) -> InstanceTypeFacts:
    devices = (Gpu("T4", "NVIDIA", gpus, 16384),) if gpus else ()
    return InstanceTypeFacts(name, 2, 8192, architecture, 29, 26, devices, True)


def test_a_listed_price_wins_over_the_formula() -> None:
    listed = load_listed_prices()
    book = PriceBook({"m5.large": facts("m5.large"), "zz.new": facts("zz.new")}, listed)
    assert book.on_demand("m5.large") == listed["m5.large"] == 0.096
    assert book.on_demand("zz.new") == formula_price(facts("zz.new")) == 0.0958


def test_arm_is_cheaper_and_gpus_cost_more() -> None:
    assert formula_price(facts("a", "arm64")) < formula_price(facts("b"))
    assert formula_price(facts("g", gpus=2)) == pytest.approx(formula_price(facts("b")) + 1.8)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_spot_share_is_fixed_and_between_its_bounds(instance_type: Any, zone: Any) -> None:
    share = spot_share(instance_type, zone)
    assert 0.25 <= share <= 0.60
    assert share == spot_share(instance_type, zone)
