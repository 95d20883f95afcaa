"""Delta debugging finds the entries that a failure needs, and no others."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulation.runner.shrink import FirstFailing, Keep, shrink


def first_needing(needed: set[int]) -> tuple[list[Keep], FirstFailing]:
    """A run that fails exactly if all of ``needed`` are there, and the parts that were tried."""
    tried: list[Keep] = []

    def first_failing(parts: Sequence[Keep]) -> Keep | None:
        tried.extend(parts)
        return next((part for part in parts if needed <= set(part)), None)

    return tried, first_failing


@given(st.integers(1, 60), st.data())
def test_only_the_needed_entries_are_left(size: int, data: st.DataObject) -> None:
    whole = tuple(range(size))
    needed = data.draw(st.sets(st.sampled_from(whole), max_size=6))
    _, first_failing = first_needing(needed)
    assert set(shrink(whole, first_failing)) == needed


def test_a_failure_that_needs_nothing_has_an_empty_plan() -> None:
    tried, first_failing = first_needing(set())
    assert shrink(tuple(range(30)), first_failing) == ()
    assert tried == [()]


def test_one_entry_of_hundreds_takes_few_attempts() -> None:
    tried, first_failing = first_needing({211})
    assert shrink(tuple(range(400)), first_failing) == (211,)
    assert len(tried) < 40


def test_attempts_are_bounded_and_the_result_still_fails() -> None:
    needed = set(range(0, 200, 2))
    tried, first_failing = first_needing(needed)
    part = shrink(tuple(range(200)), first_failing, most_attempts=50)
    assert needed <= set(part)
    assert len(tried) < 150


def test_entries_keep_their_order() -> None:
    _, first_failing = first_needing({3, 40, 8})
    assert shrink(tuple(range(50)), first_failing) == (3, 8, 40)
