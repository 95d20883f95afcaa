"""Repacking the least efficient machines keeps all pods, never raises the cost, and counts its work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import Worth, worth
from shared.solver.lowest_cost.demand import fit
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Pattern, Problem, cost_of, rank
from shared.solver.lowest_cost.search import Work, best_patterns
from shared.solver.lowest_cost.tail import Tail

SIZES = ((2.0, 4.0), (4.0, 8.0), (8.0, 32.0), (16.0, 32.0))
PRICES = (9.0, 17.0, 50.0, 66.0)
NO_EXTENDED: Indices = np.array([], dtype=np.intp)


def problem(pods: list[tuple[float, float, int]], most_per_machine: int | None = None) -> Problem:
    """``pods``: CPU, memory and how many; the first class may be limited per machine."""
    requests, capacity = np.array([pod[:2] for pod in pods]), np.array(SIZES)
    fits = fit(requests, capacity)
    groups = np.full(len(pods), -1, dtype=np.intp)
    groups[0] = -1 if most_per_machine is None else 0
    slots = np.array([] if most_per_machine is None else [most_per_machine], dtype=np.int64)
    counts = np.array([pod[2] for pod in pods])
    return Problem(requests, counts, groups, slots, capacity, np.array(PRICES), fits, fits)


def one_by_one(given: Problem) -> list[Pattern]:
    """Each pod on a machine of its own, a packing that can be improved a lot."""
    found = []
    for row, count in enumerate(given.counts):
        offer = int(np.flatnonzero(given.fits[row])[0])
        found.append(Pattern(offer, np.array([row]), np.array([1]), int(count)))
    return found


def market_of(given: Problem) -> Worth:
    found = worth(given, NO_EXTENDED)
    assert found is not None
    return found


def improved(given: Problem, packing: list[Pattern], units: float = 60.0) -> list[Pattern]:
    return Tail(given, market_of(given), NO_EXTENDED).improved(packing, Effort(units))


def check(given: Problem, packing: list[Pattern]) -> None:
    held = np.zeros_like(given.counts)
    for pattern in packing:
        content = pattern.counts @ given.requests[pattern.classes]
        assert (content <= given.capacity[pattern.offer]).all()
        assert given.fits[pattern.classes, pattern.offer].all()
        limited = pattern.counts[given.groups[pattern.classes] == 0].sum()
        assert not given.slots.size or limited <= given.slots[0]
        held[pattern.classes] += pattern.counts * pattern.copies
    assert held.tolist() == given.counts.tolist()


sizes = st.sampled_from((0.25, 0.5, 1.0, 1.5, 2.0))
classes = st.lists(st.tuples(sizes, sizes, st.integers(1, 12)), min_size=1, max_size=5)


@pytest.mark.slow
@settings(max_examples=12)
@given(classes, st.one_of(st.none(), st.integers(1, 3)))
def test_every_pod_stays_packed_and_nothing_becomes_dearer(
    pods: list[tuple[float, float, int]], most: int | None
) -> None:
    given = problem(pods, most)
    before = one_by_one(given)
    after = improved(given, before)
    check(given, after)
    assert rank(after, given.price) <= rank(before, given.price)
    assert cost_of(after, given.price) >= market_of(given).bound - 1e-6


def test_pods_on_machines_of_their_own_come_together() -> None:
    given = problem([(1.0, 0.5, 32), (0.5, 3.0, 16)])
    apart = one_by_one(given)
    assert cost_of(improved(given, apart), given.price) < 0.7 * cost_of(apart, given.price)


def test_of_two_packings_of_one_price_the_one_with_fewer_machines_is_kept() -> None:
    two, one = np.array([10.0, 20.0]), np.array([1])
    small, large = Pattern(0, np.array([0]), one, 2), Pattern(1, np.array([0]), 2 * one, 1)
    assert rank([large], two) < rank([small], two)


def test_without_effort_nothing_is_opened() -> None:
    given = problem([(1.0, 1.0, 20)])
    before = one_by_one(given)
    assert improved(given, before, units=0.0) == [
        p._replace(copies=1) for p in before for _ in range(20)
    ]


@pytest.mark.slow
def test_equal_problems_give_equal_machines_and_count_equal_work() -> None:
    pods = [(1.0, 0.5, 31), (0.5, 3.0, 17), (0.25, 0.25, 50), (1.5, 2.0, 9)]
    results = []
    for _ in range(2):
        given, effort = problem(pods), Effort(8.0)
        found = best_patterns(given, NO_EXTENDED, Work(effort, own=8.0, units=8.0))
        check(given, found)
        content = [(p.offer, p.classes.tolist(), p.counts.tolist(), p.copies) for p in found]
        results.append((content, effort.used))
    assert results[0] == results[1]
    assert results[0][1] > 0
