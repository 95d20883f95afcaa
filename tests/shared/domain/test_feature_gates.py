"""Feature gates as operators write them (OPS-02)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.feature_gates import FeatureGates, parse_feature_gates


def test_the_defaults_are_karpenter_s() -> None:
    """OPS-02: feature gates; DRF-08: drift of v1alpha5."""
    assert parse_feature_gates("") == FeatureGates(reserved_capacity=True)
    assert not FeatureGates().drift


def test_only_the_gates_that_are_named_change() -> None:
    gates = parse_feature_gates("NodeRepair=true, ReservedCapacity=False,SpotToSpotConsolidation=1")
    assert gates.node_repair
    assert not gates.reserved_capacity
    assert gates.spot_to_spot_consolidation
    assert not gates.static_capacity


def test_the_last_word_on_a_gate_counts() -> None:
    assert not parse_feature_gates("Drift=true,Drift=false").drift


@pytest.mark.parametrize("text", ["Nodrepair=true", "nodeRepair=true", "=true", "everything"])
def test_an_unknown_gate_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"use NodeRepair, .*CapacityBuffer, .*Drift"):
        parse_feature_gates(text)


def test_every_wrong_part_is_named() -> None:
    with pytest.raises(ValueError, match=r"'Magic' is not .*; NodeRepair must be true or false"):
        parse_feature_gates("Magic=true,NodeRepair=maybe,Drift=true")


@given(st.text())
def test_every_text_gives_gates_or_a_reason(text: str) -> None:
    try:
        assert isinstance(parse_feature_gates(text), FeatureGates)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, but never a silent one
