"""The configuration bound is never above the cheapest machines, wherever the search stops, and never below fluid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.solver.lowest_cost.bound.branching import whole_bound
from shared.solver.lowest_cost.bound.dual import worth
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Problem
from tests.shared.solver.lowest_cost.bound.test_dual import (
    NO_COLUMNS,
    amounts,
    cheapest,
    problem_of,
)

EFFORTS = (0, 1, 5, 1000)


def bounds(problem: Problem) -> list[int]:
    """The fluid bound, then the configuration bound after each of these efforts."""
    fluid = worth(problem, NO_COLUMNS)
    assert fluid is not None
    found = [int(fluid.bound)]
    for effort in EFFORTS:
        found.append(whole_bound(problem, fluid.pods, Effort(float(effort))))
    return found


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(amounts, amounts), min_size=2, max_size=2),
    st.lists(st.integers(1, 2), min_size=2, max_size=2),
    st.lists(st.tuples(amounts, amounts, st.integers(0, 30)), min_size=1, max_size=2),
    st.integers(0, 1),
)
def test_no_set_of_machines_is_cheaper_wherever_the_search_stops(
    requests: list[tuple[int, int]],
    counts: list[int],
    offers: list[tuple[int, int, int]],
    most: int,
) -> None:
    problem = problem_of(requests, counts, [*offers, (12, 12, 40)], most)
    problem.price *= 1000
    fluid, *found = bounds(problem)
    assert max(found) <= cheapest(problem)
    assert found[-1] >= fluid - 1
    assert sorted(found) == found


def test_whole_pods_leave_room_that_divided_pods_use() -> None:
    problem = problem_of([(3, 1)], [10], [(8, 8, 8000)])
    fluid, *_, found = bounds(problem)
    assert fluid <= 30_000
    assert found == pytest.approx(40_000, rel=1e-3)


def test_one_pod_costs_a_whole_machine() -> None:
    fluid, *_, found = bounds(problem_of([(1, 1)], [1], [(8, 8, 8000), (2, 2, 3000)]))
    assert fluid <= 1500
    assert found == pytest.approx(3000, rel=1e-3)


def test_machines_are_whole() -> None:
    fluid, *_, found = bounds(problem_of([(2, 1)], [6], [(8, 8, 8000)]))
    assert fluid <= 12_000
    assert found == pytest.approx(16_000, rel=1e-3)


def test_numbers_of_machines_of_several_sizes_are_whole() -> None:
    problem = problem_of([(2, 1)], [7], [(8, 8, 8000), (4, 4, 4500)])
    *_, found = bounds(problem)
    assert 0 <= cheapest(problem) - found <= 2


def test_classes_of_one_host_group_share_its_slots() -> None:
    problem = problem_of([(1, 1), (1, 1)], [3, 3], [(8, 8, 8000)], most=1)
    problem.groups = np.array([0, 0], dtype=np.intp)
    *_, found = bounds(problem)
    assert found == pytest.approx(48_000, rel=1e-3)


def test_a_pod_that_fits_nowhere_counts_for_nothing() -> None:
    *_, found = bounds(problem_of([(9, 9), (1, 1)], [5, 4], [(2, 2, 3000)]))
    assert found == pytest.approx(6000, rel=1e-3)


def test_equal_problems_have_equal_bounds() -> None:
    problem = problem_of([(3, 1), (1, 4)], [17, 9], [(8, 8, 8000), (16, 30, 17_000)], most=1)
    assert bounds(problem) == bounds(problem)
