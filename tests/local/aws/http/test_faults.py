"""Which calls meet an ordered fault: by number, time, rate and share; bounded; repeatable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws.http.faults import ACTION_FAULT_LIMIT, Fault, Faults, Occurrence
from tests.support.clock.fake import FakeClock

REFUSED = Fault("RequestLimitExceeded", "slow down", 503, "before")
OTHER = Fault("InternalError", "", 500, "before")


def ordered(pattern: str = "CreateFleet", **occurrence: Any) -> tuple[Faults, FakeClock]:
    clock = FakeClock()
    faults = Faults(clock)
    faults.order(pattern, REFUSED, Occurrence(**occurrence))
    return faults, clock


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 60))
def test_a_number_of_calls_meets_it_after_those_that_are_skipped(
    count: Any, skip: Any, calls: Any
) -> None:
    faults, _ = ordered(count=count, skip=skip)
    met = [faults.take("CreateFleet", "ec2") is not None for _ in range(calls)]
    assert met == [skip <= place < skip + count for place in range(calls)]


@given(st.lists(st.floats(0, 5), max_size=30))
def test_a_window_ends_however_many_calls_met_it(steps: Any) -> None:
    faults, clock = ordered(seconds=10)
    begun = clock.seconds
    for step in steps:
        clock.advance(step)
        met = faults.take("CreateFleet", "ec2") is not None
        assert met == (clock.seconds < begun + 10)


@given(st.floats(0.1, 10), st.integers(1, 10), st.lists(st.floats(0, 3), min_size=1, max_size=60))
def test_no_more_calls_pass_a_bucket_than_it_had_and_was_refilled(
    rate: Any, burst: Any, steps: Any
) -> None:
    faults, clock = ordered(calls_per_second=rate, burst=burst)
    passed = 0
    for step in steps:
        clock.advance(step)
        passed += faults.take("CreateFleet", "ec2") is None
    assert passed <= burst + sum(steps) * rate + 1e-6


def test_a_bucket_lets_its_burst_through_and_refills() -> None:
    faults, clock = ordered(calls_per_second=2, burst=3)
    at_once = [faults.take("CreateFleet", "ec2") is None for _ in range(5)]
    assert at_once == [True, True, True, False, False]
    clock.advance(0.5)
    assert [faults.take("CreateFleet", "ec2") is None for _ in range(2)] == [True, False]


@given(st.integers(), st.floats(5, 95))
def test_the_same_seed_draws_the_same_calls(seed: Any, percent: Any) -> None:
    def draw() -> list[bool]:
        faults, _ = ordered(percent=percent, seed=seed)
        return [faults.take("CreateFleet", "ec2") is not None for _ in range(50)]

    assert draw() == draw()


def test_a_share_is_about_that_share() -> None:
    faults, _ = ordered(percent=30, seed=1)
    met = sum(faults.take("CreateFleet", "ec2") is not None for _ in range(1000))
    assert 240 < met < 360


@pytest.mark.parametrize(
    ("pattern", "action", "service", "met"),
    [
        ("CreateFleet", "CreateFleet", "ec2", True),
        ("CreateFleet", "CreateTags", "ec2", False),
        ("Create*", "CreateTags", "ec2", True),
        ("*", "ReceiveMessage", "sqs", True),
        ("sqs:*", "ReceiveMessage", "sqs", True),
        ("sqs:*", "CreateFleet", "ec2", False),
        ("ec2:Describe*", "DescribeSubnets", "ec2", True),
        ("KMSDecrypt", "KMSDecrypt", None, True),
        ("*", "KMSDecrypt", None, False),
        ("*", "", "eks", True),
    ],
)
def test_a_pattern_names_actions_and_services(
    pattern: str, action: str, service: str | None, met: bool
) -> None:
    faults, _ = ordered(pattern)
    assert (faults.take(action, service) is not None) == met


def test_the_oldest_order_decides_and_only_it_is_used_up() -> None:
    faults, _ = ordered(count=1)
    faults.order("*", OTHER, Occurrence(count=1))
    assert [faults.take("CreateFleet", "ec2") for _ in range(3)] == [REFUSED, OTHER, None]


def test_orders_are_bounded_and_a_spent_one_makes_room() -> None:
    faults, clock = ordered(seconds=5)
    for _ in range(ACTION_FAULT_LIMIT - 1):
        faults.order("CreateFleet", REFUSED, Occurrence(count=1))
    with pytest.raises(OverflowError, match="100"):
        faults.order("CreateFleet", REFUSED, Occurrence(count=1))
    clock.advance(6)
    faults.order("CreateFleet", REFUSED, Occurrence(count=1))


def test_what_waits_is_listed_until_it_is_over() -> None:
    faults, clock = ordered(seconds=10, count=3)
    faults.take("CreateFleet", "ec2")
    clock.advance(4)
    (row,) = faults.waiting()
    assert (row["callsLeft"], row["secondsLeft"], row["met"]) == (2, 6.0, 1)
    clock.advance(6)
    assert faults.waiting() == []


def test_clear_cancels_every_order() -> None:
    faults, _ = ordered(seconds=10)
    faults.clear()
    assert faults.take("CreateFleet", "ec2") is None
