"""Machines out of known contents: they hold all pods, and never cost more than the packing that was known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import worth
from shared.solver.lowest_cost.contents.whole import (
    Mix,
    cheapest_mix,
    combined,
    whole_machines,
)
from shared.solver.lowest_cost.demand import fit
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Pattern, Problem, cost_of

SIZES = ((2.0, 4.0), (4.0, 8.0), (8.0, 32.0), (16.0, 32.0))
PRICES = (9.0, 17.0, 50.0, 66.0)
NO_EXTENDED: Indices = np.array([], dtype=np.intp)
PODS = st.lists(
    st.tuples(st.integers(1, 8), st.integers(1, 16), st.integers(1, 6)), min_size=11, max_size=12
)


def problem_of(pods: list[tuple[int, int, int]]) -> Problem:
    """``pods``: quarters of a CPU, quarters of memory, and how many."""
    requests = np.array([pod[:2] for pod in pods]) / 4
    capacity = np.array(SIZES)
    fits = fit(requests, capacity)
    counts = np.array([pod[2] for pod in pods], dtype=np.int64)
    groups = np.full(len(pods), -1, dtype=np.intp)
    slots = np.zeros(0, dtype=np.int64)
    return Problem(requests, counts, groups, slots, capacity, np.array(PRICES), fits, fits)


def pairs_of(problem: Problem) -> list[Pattern]:
    """Two pods of a class on each smallest machine."""
    found = []
    for row, count in enumerate(problem.counts.tolist()):
        one = np.array([row], dtype=np.intp)
        found += [Pattern(2, one, np.array([2]), count // 2)] if count > 1 else []
        found += [Pattern(2, one, np.array([1]), 1)] if count % 2 else []
    return found


def held(problem: Problem, machines: list[Pattern]) -> Counts:
    found = np.zeros_like(problem.counts)
    for machine in machines:
        content = machine.counts @ problem.requests[machine.classes]
        assert (content <= problem.capacity[machine.offer]).all()
        found[machine.classes] += machine.counts * machine.copies
    return found


def asked(problem: Problem, packing: list[Pattern], effort: float) -> list[Pattern] | None:
    market = worth(problem, NO_EXTENDED)
    assert market is not None
    found = whole_machines(problem, market, packing, Effort(effort))
    return found and found.machines


@pytest.mark.nightly
@pytest.mark.timeout(600)
@given(PODS)
@settings(max_examples=10)
def test_the_machines_hold_all_pods_and_cost_no_more(pods: list[tuple[int, int, int]]) -> None:
    problem = problem_of(pods)
    packing = pairs_of(problem)
    found = asked(problem, packing, 500.0)
    assert found is not None
    assert (held(problem, found) == problem.counts).all()
    assert cost_of(found, problem.price) <= cost_of(packing, problem.price)


@pytest.mark.slow
def test_a_small_problem_gets_machines_that_suit_all_its_pods() -> None:
    problem = problem_of([(row + 1, 2, 5) for row in range(12)])
    found = asked(problem, pairs_of(problem), 500.0)
    assert found is not None
    assert (held(problem, found) == problem.counts).all()
    assert cost_of(found, problem.price) < cost_of(pairs_of(problem), problem.price) / 2


def known_of(problem: Problem) -> Mix:
    """The mix of a problem that is known by pairs."""
    market = worth(problem, NO_EXTENDED)
    assert market is not None
    found = cheapest_mix(problem, market, [pairs_of(problem)], Effort(300.0))
    assert found is not None
    return found


@pytest.mark.slow
@given(PODS)
@settings(max_examples=10, deadline=None)
def test_known_contents_are_combined_for_less(pods: list[tuple[int, int, int]]) -> None:
    """Whatever the contents: all pods are held once, for no more than the packing costs and no less than the mix."""
    problem = problem_of(pods)
    packing = pairs_of(problem)
    mix, contents = known_of(problem)
    found = combined(problem, contents, packing, Effort(400.0))
    assert found is not None
    assert (held(problem, found) == problem.counts).all()
    cost = cost_of(found, problem.price)
    assert mix.pods @ problem.counts <= cost * (1 + 1e-9)
    assert cost <= cost_of(packing, problem.price)


def test_more_contents_than_a_program_can_take_are_left_alone() -> None:
    problem = problem_of([(1, 1, 2000)])
    one = np.array([0], dtype=np.intp)
    contents = [Pattern(3, one, np.array([count]), 1) for count in range(1, 1600)]
    assert combined(problem, contents, pairs_of(problem), Effort(400.0)) is None


def test_a_problem_of_too_many_pairs_has_no_mix() -> None:
    problem = problem_of([(1, 1, 2)])
    market = worth(problem, NO_EXTENDED)
    assert market is not None
    many = replace(
        problem,
        fits=np.ones((1, 40_001), dtype=np.bool_),
        may=np.ones((1, 40_001), dtype=np.bool_),
        price=np.ones(40_001),
        capacity=np.ones((40_001, 2)),
    )
    assert cheapest_mix(many, market, [], Effort(400.0)) is None


def test_a_larger_problem_is_not_asked() -> None:
    problem = problem_of([(row % 8 + 1, row // 8 + 1, 5) for row in range(31)])
    assert asked(problem, pairs_of(problem), 1000.0) is None
