"""What is remembered for a while, and no longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.concurrency.expiring import Expiring


def test_a_value_is_known_until_its_time_is_up() -> None:
    known = Expiring[int](10)
    known.put("a", 1, now=0.0, seconds=5.0)
    assert (known.get("a", 4.9), known.get("a", 5.0), known.get("b", 0.0)) == (1, None, None)


def test_what_began_does_not_begin_again_before_its_time_is_up_or_it_is_forgotten() -> None:
    known = Expiring[bool](10)
    assert known.begin("a", now=0.0, seconds=5.0)
    assert not known.begin("a", now=4.0, seconds=5.0)
    known.forget("a")
    assert known.begin("a", now=4.0, seconds=5.0)
    assert known.begin("a", now=9.0, seconds=5.0)


def test_the_oldest_goes_when_there_are_too_many() -> None:
    known = Expiring[int](2)
    for name in "abac":
        known.put(name, 1, now=0.0, seconds=5.0)
    assert [known.get(name, 1.0) for name in "abc"] == [1, None, 1]


def test_memory_follows_what_counts_and_not_what_happened() -> None:
    known = Expiring[int](100_000)
    for second in range(20_000):
        known.put(f"{second}", 1, now=float(second), seconds=100.0)
    assert len(known) < 600


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 20), st.integers(1, 30))))
def test_it_agrees_with_a_plain_dictionary_of_times(steps: list[tuple[str, int, int]]) -> None:
    known, model, now = Expiring[int](100), dict[str, float](), 0.0
    for name, passed, seconds in steps:
        now += passed
        assert (known.get(name, now) is not None) == (model.get(name, now) > now)
        known.put(name, 1, now=now, seconds=seconds)
        model[name] = now + seconds
