"""What is written as TOML is read back equal."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.user_data.toml_text import to_toml

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
ZONES = st.none() | st.integers(-1439, 1439).map(lambda m: timezone(timedelta(minutes=m)))
PLAIN = (
    TEXT
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.dates()
    | st.times()
    | st.datetimes(timezones=ZONES)
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_any_document_comes_back(document: dict[str, Any]) -> None:
    """LCH-33: a user's settings are not changed by being merged."""
    assert tomllib.loads(to_toml(document)) == document


def test_a_document_for_people() -> None:
    document = {
        "top": 1,
        "a": {"b": {"c": [1, {"d": True}], "e.f": "x\ny"}, "empty": {}},
        "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "hour": time(3, 4, 5),
        "much": float("inf"),
    }
    assert to_toml(document) == (
        "top = 1\n"
        "when = 2026-01-02T03:04:05+00:00\n"
        "day = 2026-01-02\n"
        "hour = 03:04:05\n"
        "much = inf\n"
        "[a.b]\n"
        "c = [1, {d = true}]\n"
        '"e.f" = "x\\u000ay"\n'
        "[a.empty]\n"
    )


def test_what_toml_has_no_word_for_is_a_bug() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        to_toml({"a": None})
