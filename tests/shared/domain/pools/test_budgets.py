"""Disruption budgets (NP-10, NP-11, DIS-22..24, ACC-67)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.pools.budgets import (
    MACROS,
    UNLIMITED,
    allowed_disruptions,
    budget_size,
    is_active,
    schedule_fault,
)
from shared.domain.pools.nodepools import DRIFTED, EMPTY, UNDERUTILIZED, Budget
from shared.errors import InvalidObject

HOUR = 3600.0
BUSINESS = Budget("0", schedule="0 9 * * mon-fri", duration_seconds=8 * HOUR)


def at(text: str) -> float:
    """Seconds since the epoch of a moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


NOON = at("2026-03-02T12:00:00")
"""A Monday."""


def allowed(*budgets: Budget, total: int = 10, consuming: int = 0, now: float = NOON) -> int:
    return allowed_disruptions(budgets, EMPTY, total=total, consuming=consuming, now=now)


def test_ten_percent_of_one_machine_is_one() -> None:
    """ACC-67, DIS-22: percentages round up."""
    assert allowed(Budget("10%"), total=1) == 1


def test_a_closed_window_does_not_limit() -> None:
    """ACC-67: budgets of a percentage."""
    assert allowed(BUSINESS, now=at("2026-03-01T12:00:00")) == UNLIMITED


def test_a_schedule_that_cannot_be_read_allows_nothing() -> None:
    """ACC-67: budgets of a percentage; DIS-23: schedules of budgets."""
    assert allowed(Budget("5", schedule="61 9 * * *", duration_seconds=HOUR)) == 0


@pytest.mark.parametrize(
    ("nodes", "total", "size"),
    [("10%", 11, 2), ("10%", 10, 1), ("0%", 10, 0), ("100%", 7, 7), ("3", 100, 3), ("10%", 0, 0)],
)
def test_a_budget_is_a_count_or_a_share_rounded_up(nodes: str, total: int, size: int) -> None:
    """DIS-22: the smallest active budget counts."""
    assert budget_size(nodes, total) == size


@pytest.mark.parametrize("nodes", ["", "101%", "-1", "ten", "1.5", "9" * 5000, "٣", "5\n"])
def test_a_size_that_cannot_be_read_allows_nothing(nodes: str) -> None:
    assert allowed(Budget(nodes)) == 0


def test_without_budgets_nothing_is_limited() -> None:
    """DIS-22: none active."""
    assert allowed(consuming=10) == UNLIMITED


def test_the_smallest_active_budget_holds() -> None:
    """DIS-22: the smallest active budget counts."""
    assert allowed(Budget("50%"), Budget("2"), Budget("7")) == 2


def test_a_budget_limits_the_reasons_it_names() -> None:
    """DIS-22: none named means all."""
    budget = Budget("0", reasons=(UNDERUTILIZED, DRIFTED))
    assert allowed(budget) == UNLIMITED
    assert allowed_disruptions([budget], DRIFTED, total=10, consuming=0, now=NOON) == 0


def test_machines_already_disrupted_count() -> None:
    """DIS-24: nodes that count for budgets."""
    assert allowed(Budget("3"), consuming=2) == 1
    assert allowed(Budget("3"), consuming=5) == 0


@pytest.mark.parametrize(
    ("moment", "active"),
    [
        ("2026-03-02T08:59:59", False),
        ("2026-03-02T09:00:00", True),
        ("2026-03-02T16:59:59", True),
        ("2026-03-02T17:00:00", False),
        ("2026-03-07T12:00:00", False),
    ],
)
def test_a_window_opens_with_its_schedule_and_closes_after_its_duration(
    moment: str, active: bool
) -> None:
    """DIS-23: the schedule came up in (now - duration, now]."""
    assert is_active(BUSINESS, at(moment)) is active


def test_fractions_of_a_second_do_not_move_a_window() -> None:
    assert not is_active(BUSINESS, at("2026-03-02T09:00:00") - 0.25)
    assert is_active(BUSINESS, at("2026-03-02T17:00:00") - 0.25)
    assert not is_active(BUSINESS, at("2026-03-02T17:00:00") + 0.25)


@pytest.mark.parametrize(
    ("macro", "start"),
    [
        ("@hourly", "2026-03-02T12:00:00"),
        ("@daily", "2026-03-02T00:00:00"),
        ("@midnight", "2026-03-02T00:00:00"),
        ("@weekly", "2026-03-01T00:00:00"),
        ("@monthly", "2026-03-01T00:00:00"),
        ("@yearly", "2026-01-01T00:00:00"),
        ("@annually", "2026-01-01T00:00:00"),
    ],
)
def test_macros_begin_when_cron_says(macro: str, start: str) -> None:
    """NP-11: schedules of budgets."""
    budget = Budget("0", schedule=macro, duration_seconds=60.0)
    assert is_active(budget, at(start))
    assert not is_active(budget, at(start) + 60)
    assert not is_active(budget, at(start) - 1)


@pytest.mark.parametrize(
    ("schedule", "days"),
    [
        ("0 0 */10 * mon", [1, 2, 9, 11, 16, 21, 23, 30, 31]),
        ("0 0 ?/10 * mon", [1, 2, 9, 11, 16, 21, 23, 30, 31]),
        ("0 0 13 * */6", [1, 7, 8, 13, 14, 15, 21, 22, 28, 29]),
        ("0 0 */1 * mon", [2, 9, 16, 23, 30]),
        ("0 0 13,* * mon", [2, 9, 16, 23, 30]),
        ("0 0 13 * mon,*", [13]),
        ("0 0 13 * mon", [2, 9, 13, 16, 23, 30]),
    ],
)
def test_days_of_the_month_and_of_the_week_count_as_in_kubernetes(
    schedule: str, days: list[int]
) -> None:
    """DIS-23: either of both, unless one is every day; every tenth day is not every day."""
    budget = Budget("0", schedule=schedule, duration_seconds=HOUR)
    found = [day for day in range(1, 32) if is_active(budget, at(f"2026-03-{day:02}T00:30:00"))]
    assert found == days


def test_a_rare_schedule_is_found() -> None:
    budget = Budget("0", schedule="0 0 29 2 *", duration_seconds=HOUR)
    assert is_active(budget, at("2028-02-29T00:30:00"))
    assert not is_active(budget, NOON)


@pytest.mark.parametrize(
    "schedule",
    [
        *MACROS,
        "*/15 * * * *",
        "0 9-17 * * MON-FRI",
        "0,30 0 1 jan ?",
        "5/10 * * * 0,6",
        "7/7 7 7 7 */7",
        "0  0 * * *",
    ],
)
def test_schedules_of_kubernetes_are_understood(schedule: str) -> None:
    assert schedule_fault(schedule) == ""


@pytest.mark.parametrize(
    "schedule",
    [
        "", "@never", "* * * *", "* * * * * *", "60 * * * *", "* * 0 * *", "0 0 30 2 *", "*/0 * * * *",
        "5-1 * * * *", "* * L * *", "* * * * 1#2", "TZ=UTC * * * * *", "* * * * foo", "*" * 10_000, "٣ * * * *",
        "0 0 * * 7", "0 0 * * 5-7", "0 0 * * 0,7", "0 0 * * 7/2",
    ],
)  # fmt: skip
def test_other_schedules_are_refused_in_words(schedule: str) -> None:
    """NP-11: five fields or a macro; seconds, L and # are known to some libraries only."""
    assert "is not a schedule" in schedule_fault(schedule)


def test_half_a_window_allows_nothing() -> None:
    """NP-11: schedule and duration belong together."""
    for half in (Budget("5", schedule="@daily"), Budget("5", duration_seconds=HOUR)):
        assert allowed(half) == 0
        with pytest.raises(InvalidObject):
            is_active(half, NOON)


def test_a_duration_longer_than_the_epoch_is_always_active() -> None:
    assert is_active(Budget("1", schedule="0 0 29 2 *", duration_seconds=1e30), NOON)


budgets = st.builds(
    Budget,
    nodes=st.one_of(
        st.integers(0, 2**40).map(str), st.integers(0, 110).map("{}%".format), st.text(max_size=3)
    ),
    reasons=st.lists(st.sampled_from([EMPTY, DRIFTED, UNDERUTILIZED]), max_size=2).map(tuple),
    schedule=st.sampled_from(["", "@daily", "*/5 * * * *", "0 9 * * 1-5", "0 0 29 2 *", "bad"]),
    duration_seconds=st.one_of(st.none(), st.floats(0, 1e12)),
)
lists = st.lists(budgets, max_size=4)
counts = st.integers(0, 10_000)
moments = st.floats(0, 4e9)


@given(lists, counts, counts, counts, moments)
def test_more_disruption_never_allows_more(
    some: list[Budget], total: int, first: int, second: int, now: float
) -> None:
    fewer, more = sorted((first, second))
    left = allowed(*some, total=total, consuming=more, now=now)
    assert 0 <= left <= allowed(*some, total=total, consuming=fewer, now=now) <= UNLIMITED


@given(lists, budgets, counts, counts, moments)
def test_another_budget_never_allows_more(
    some: list[Budget], another: Budget, total: int, consuming: int, now: float
) -> None:
    with_it = allowed(*some, another, total=total, consuming=consuming, now=now)
    assert with_it <= allowed(*some, total=total, consuming=consuming, now=now)
