"""Tables never say too little of a content's worth, and say it exactly where sizes are whole numbers of steps."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.solver.lowest_cost.contents.room_prices import most_of_classes
from shared.solver.lowest_cost.contents.tables import Tables, Valued
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Problem
from tests.shared.solver.lowest_cost.bound.test_dual import problem_of
from tests.shared.solver.lowest_cost.contents.test_diagram import ALL, given_problem, kinds
from tests.shared.solver.lowest_cost.contents.test_diagram import most_worth as truth_of


def tables(problem: Problem, prices: list[int], effort: float = 1e9) -> list[Valued]:
    offers = np.arange(len(problem.price))
    every = np.ones((len(offers), len(prices)), dtype=np.bool_)
    made = Tables(problem, offers, most_of_classes(problem))
    return list(made.values(np.array(prices, np.float64), offers, every, 1e9, Effort(effort)))


@settings(max_examples=60, deadline=None)
@given(kinds, st.integers(0, 2))
def test_no_content_is_worth_more_and_small_sizes_are_exact(
    rows: list[tuple[int, int, int, int]], most: int
) -> None:
    problem, prices = given_problem(rows, most)
    problem.groups = np.where(np.arange(len(rows)) == 0, problem.groups, -1)
    for found in tables(problem, prices):
        truth = [truth_of(problem, prices, int(offer)) for offer in found.rows]
        assert found.most.tolist() == truth
        assert (found.contents @ np.array(prices)).tolist() == truth


sizes = st.tuples(st.integers(1000, 9000), st.integers(1000, 9000))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(sizes, st.integers(1, 50)), min_size=3, max_size=3), st.integers(0, 1))
def test_rounded_sizes_never_make_a_content_worth_less(
    rows: list[tuple[tuple[int, int], int]], most: int
) -> None:
    room = [(20_011, 23_027, 9), (15_013, 30_029, 9)]
    problem = problem_of([size for size, _ in rows], [4, 3, 2], room, most)
    prices = [price for _, price in rows]
    seen = set()
    for found in tables(problem, prices):
        seen.update(found.rows.tolist())
        for offer, stated in zip(found.rows.tolist(), found.most, strict=True):
            assert stated >= truth_of(problem, prices, offer)
    assert seen <= set(ALL.tolist())


def test_large_prices_are_rounded_up() -> None:
    problem = problem_of([(3, 1), (1, 2)], [4, 4], [(8, 8, 9)], 0)
    prices = [7_000_000_001, 3_000_000_001]
    (found,) = tables(problem, prices)
    truth = truth_of(problem, prices, 0)
    assert truth <= found.most[0] <= truth * 1.001


def test_without_effort_there_are_no_tables() -> None:
    problem, prices = given_problem([(3, 1, 4, 10)], 0)
    assert tables(problem, prices, effort=0.0) == []
