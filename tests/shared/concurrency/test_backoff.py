"""The one doubling delay."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from shared.concurrency.backoff import Backoff, doubled


@given(st.integers(0, 1000))
def test_backoff_stays_between_a_quarter_and_thirty_seconds(seed: int) -> None:
    backoff = Backoff(Random(seed))
    delays = [backoff.next() for _ in range(40)]
    assert min(delays) >= 0.25
    assert max(delays) <= 30
    backoff.reset()
    assert backoff.next() <= 0.5


def test_backoff_honours_what_the_server_asks() -> None:
    assert Backoff(Random(1)).next(at_least=7) >= 7


def test_without_randomness_the_delays_are_exact() -> None:
    backoff = Backoff(None, first=0.1, cap=0.5)
    assert [backoff.next() for _ in range(5)] == [0.1, 0.2, 0.4, 0.5, 0.5]


@given(st.integers(0, 10**9), st.floats(0.01, 10), st.floats(10, 1000))
def test_a_delay_is_never_below_the_first_nor_above_the_cap(
    failures: int, first: float, cap: float
) -> None:
    assert first <= doubled(failures, first=first, cap=cap) <= cap
    assert doubled(failures, first=first, cap=cap) <= doubled(failures + 1, first=first, cap=cap)
