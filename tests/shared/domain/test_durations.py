"""Durations as Go writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.durations import go_duration_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5s", 1.5), ("500ms", 0.5), ("1m30s", 90.0), (".5h", 1800.0), ("10µs", 1e-5), ("0", 0.0)],
)
def test_fractions_and_small_units_are_read(text: str, seconds: float) -> None:
    assert go_duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "1d", "-1s", "1s 2s", "s", "١s", "1" * 70 + "s"])
def test_anything_else_is_no_duration(text: str) -> None:
    assert go_duration_seconds(text) is None


@given(st.text())
def test_every_text_is_a_duration_or_none(text: str) -> None:
    seconds = go_duration_seconds(text)
    assert seconds is None or seconds >= 0
