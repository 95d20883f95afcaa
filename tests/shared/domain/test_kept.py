"""What is kept from plan to plan (``shared.domain.workloads.kept``)."""

from __future__ import annotations

from shared.domain.workloads import kept
from shared.domain.workloads.kept import SPARE, Known, Recent


def test_the_newest_values_stay() -> None:
    recent = Recent[int](2)
    assert [recent.add(one) for one in (1, 2, 3)] == [1, 2, 3]
    assert list(recent) == [3, 2]


def test_a_value_takes_the_place_of_the_one_that_it_replaces() -> None:
    first, second, third = object(), object(), object()
    recent = Recent[object](2)
    for one in (first, second):
        recent.add(one)
    recent.add(third, instead_of=second)
    assert list(recent) == [third, first]


def test_it_begins_anew_when_most_is_of_nodes_that_are_gone() -> None:
    known = Known[str, int]()
    known.update({str(number): number for number in range(SPARE + 11)})
    known.forget_gone(6)
    assert len(known) == SPARE + 11
    known.forget_gone(5)
    assert known == {}


def test_all_of_it_is_forgotten_at_once() -> None:
    known, recent = Known[str, int](), Recent[int]()
    known["a"] = recent.add(1)
    kept.forget()
    assert (known, list(recent)) == ({}, [])
