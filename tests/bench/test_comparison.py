"""Figures beside written ones: what is worse is found, and a slow machine is no slow plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.comparison.__main__ import FIGURES, YARDSTICK, Tables, compare

WRITTEN: dict[str, Any] = json.loads(FIGURES.read_text())


def tables(yardstick: float = 0.1, **changed: float | None) -> Tables:
    row: dict[str, object] = {"workload": "mix", "pods": 100, "cpu ms": 200.0, "peak MiB": 60}
    row |= {"$/h": 2.0, "machines": 4, "without a place": 0}
    return {
        YARDSTICK: [{"workload": "fixed", "cpu s": yardstick}],
        "scheduling": [{**row, **{n.replace("_", " "): v for n, v in changed.items()}}],
    }


def worse(before: Tables, now: Tables) -> list[str]:
    return [one.column for one in compare(before, now, 1.5) if one.worse]


def test_the_same_figures_are_not_worse() -> None:
    assert worse(tables(), tables()) == []
    assert len(compare(tables(), tables(), 1.5)) == 6


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"cpu_ms": 290.0}, []),
        ({"cpu_ms": 310.0}, ["cpu ms"]),
        ({"peak_MiB": 91}, ["peak MiB"]),
        ({"$/h": 2.001}, ["$/h"]),
        ({"machines": 5}, ["machines"]),
        ({"machines": 3, "$/h": 1.0}, []),
        ({"without_a_place": 1}, ["without a place"]),
        ({"$/h": None}, []),
    ],
)
def test_time_may_vary_and_decisions_may_not(changed: dict[str, Any], found: list[str]) -> None:
    assert worse(tables(), tables(**changed)) == found


def test_times_are_those_of_the_machine() -> None:
    """Twice the time, on a machine that takes twice as long for everything, is the same."""
    assert worse(tables(yardstick=0.1), tables(yardstick=0.2, cpu_ms=400.0)) == []
    assert worse(tables(yardstick=0.1), tables(yardstick=0.1, cpu_ms=400.0)) == ["cpu ms"]


def test_one_slow_case_of_many_is_shown_and_not_judged() -> None:
    """On a busy machine any one may be; all of them are not."""
    before, now = tables(), tables(cpu_ms=400.0)
    for one in (before, now):
        one["scheduling"] += [{**tables()["scheduling"][0], "pods": n} for n in range(9)]
    assert worse(before, now) == []
    (shown,) = (
        one for one in compare(before, now, 1.5) if one.column == "cpu ms" and one.ratio == 2
    )
    assert shown.case == "scheduling: mix, 100 pods"


def test_a_case_that_nobody_has_written_is_left_out() -> None:
    assert compare(tables(pods=50), tables(), 1.5) == []


def test_the_written_figures_have_every_table_with_its_cases() -> None:
    assert WRITTEN.keys() == {YARDSTICK, "scheduling", "backlog", "cost"}
    assert len(compare(WRITTEN, WRITTEN, 1.5)) > 80
    assert worse(WRITTEN, WRITTEN) == []
