"""Lists of names in logs have an end (BAT-09)."""

from __future__ import annotations

import pytest

from services.scheduler.report import some


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, "n0"),
        (5, "n0, n1, n2, n3, n4"),
        (6, "n0, n1, n2, n3, n4 and 1 other(s)"),
        (187, "n0, n1, n2, n3, n4 and 182 other(s)"),
    ],
)
def test_five_names_and_how_many_more(count: int, text: str) -> None:
    assert some(f"n{i}" for i in range(count)) == text
