"""The search for the most valuable content never says too little, however few states it may keep."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.solver.lowest_cost.bound.configuration import with_whole_pods
from shared.solver.lowest_cost.contents.diagram import Diagram
from shared.solver.lowest_cost.contents.room_prices import ContentProgram, proved
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Problem
from tests.shared.solver.lowest_cost.bound.test_dual import amounts, problem_of

OFFERS = [(8, 8, 9), (5, 12, 9)]
ALL = np.arange(len(OFFERS))
kinds = st.lists(st.tuples(amounts, amounts, st.integers(1, 4), st.integers(0, 50)),
                 min_size=1, max_size=4)  # fmt: skip


def most_worth(problem: Problem, prices: list[int], offer: int) -> int:
    """By trying every content."""
    best = 0
    for counts in product(*(range(n + 1) for n in problem.counts)):
        holds = (np.array(counts) @ problem.requests <= problem.capacity[offer]).all()
        of_group = sum(n for n, g in zip(counts, problem.groups, strict=True) if g == 0)
        if holds and (not len(problem.slots) or of_group <= problem.slots[0]):
            best = max(best, sum(n * p for n, p in zip(counts, prices, strict=True)))
    return best


def given_problem(rows: list[tuple[int, int, int, int]], most: int) -> tuple[Problem, list[int]]:
    problem = problem_of([row[:2] for row in rows], [row[2] for row in rows], OFFERS, most)
    if most:
        problem.groups[: min(2, len(rows))] = 0
    return problem, [row[3] for row in rows]


many = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(5, 9), st.integers(1, 50)),
                min_size=3, max_size=3)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(many, st.integers(0, 3), st.sampled_from([8, 60_000]))
def test_a_search_in_one_offering_leaves_out_no_content_that_is_worth_more(
    rows: list[tuple[int, int, int, int]], most: int, width: int
) -> None:
    """Here states are left out because others have more room and are worth as much."""
    pods, whole = [row[:2] for row in rows], [row[3] for row in rows]
    problem = problem_of(pods, [row[2] for row in rows], [(47, 53, 9)], most)
    sharp = with_whole_pods(problem)
    prices, one = np.array(whole, dtype=np.float64), np.arange(1)
    proof = ContentProgram(sharp).room_prices(prices, one, Effort(1e9))
    found, *_ = Diagram(sharp, one, prices, proof, np.zeros(1), width, 2).run(Effort(1e9))
    truth = most_worth(problem, whole, 0)
    assert found[0] == truth if width > 8 else found[0] >= truth
    assert proof.ceiling[0] >= truth - 1e-6


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(kinds, st.integers(0, 2), st.sampled_from([1, 4, 1000]), st.booleans())
def test_no_content_is_worth_more(
    rows: list[tuple[int, int, int, int]], most: int, width: int, priced: bool
) -> None:
    problem, whole = given_problem(rows, most)
    prices = np.array(whole, dtype=np.float64)
    program = ContentProgram(problem)
    proof = program.room_prices(prices, ALL, Effort(1e9))
    if not priced:  # any prices of room prove something
        proof = proved(problem, prices, ALL, np.full((2, 2), 3.0), np.zeros_like(proof.slots))
    target = np.zeros(len(OFFERS))
    found, at, contents = Diagram(problem, ALL, prices, proof, target, width, 2).run(Effort(1e9))
    for offer in ALL:
        truth = most_worth(problem, whole, int(offer))
        assert proof.ceiling[offer] >= truth - 1e-6
        assert found[offer] >= truth
        if width == 1000:
            assert found[offer] == truth
    if width == 1000:
        assert all(
            found[row] == content @ prices for row, content in zip(at, contents, strict=True)
        )


def test_without_effort_only_the_prices_of_room_are_known() -> None:
    problem, whole = given_problem([(3, 1, 4, 10)], 0)
    prices = np.array(whole, dtype=np.float64)
    proof = ContentProgram(problem).room_prices(prices, ALL, Effort(1e9))
    found, _, contents = Diagram(problem, ALL, prices, proof, np.zeros(2), 10, 2).run(Effort(0.0))
    assert np.array_equal(found, proof.ceiling)
    assert not len(contents)
