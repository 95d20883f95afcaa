"""Machines of a packing are exchanged for cheaper ones that hold the same pods, by sizes or by whole contents."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import Worth, worth
from shared.solver.lowest_cost.contents.exchange import Exchange, Trial
from shared.solver.lowest_cost.contents.opened import Opened
from shared.solver.lowest_cost.contents.reopened import ContentsTrial
from shared.solver.lowest_cost.contents.sizes import cheapest_machines, columns_of
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Pattern, Problem, cost_of, dense

PODS = 10**6
NO_EXTENDED: Indices = np.zeros(0, dtype=np.intp)


def problem_of(
    pods: list[tuple[int, int]],
    sizes: list[tuple[int, int]],
    *,
    group: list[int] | None = None,
    slots: tuple[int, ...] = (),
) -> Problem:
    """``pods``: (CPU, number) per class; ``sizes``: (CPU, price) per offering."""
    requests = np.array([(cpu, 1) for cpu, _ in pods], dtype=np.float64)
    capacity = np.array([(cpu, PODS) for cpu, _ in sizes], dtype=np.float64)
    may = np.ones((len(pods), len(sizes)), dtype=np.bool_)
    return Problem(
        requests,
        np.array([number for _, number in pods], dtype=np.int64),
        np.array(group or [-1] * len(pods), dtype=np.intp),
        np.array(slots, dtype=np.int64),
        capacity,
        np.array([price for _, price in sizes], dtype=np.float64),
        may,
        may & (requests[:, :1] <= capacity[:, 0]),
    )


def machine(offer: int, *counts: int) -> Pattern:
    """One machine of an offering with so many pods of each class."""
    held = np.flatnonzero(counts)
    return Pattern(offer, held, np.array(counts, dtype=np.int64)[held], 1)


def pods_in(problem: Problem, machines: list[Pattern]) -> Counts:
    """[classes]."""
    found: Counts = sum(
        (one.copies * dense(problem, one) for one in machines), np.zeros_like(problem.counts)
    )
    return found


def assert_possible(problem: Problem, machines: list[Pattern]) -> None:
    """Each machine has room for its pods, and no more of a group than it has slots."""
    for one in machines:
        counts = dense(problem, one)
        assert (counts @ problem.requests <= problem.capacity[one.offer]).all()
        assert problem.fits[one.classes, one.offer].all()
        for group, slots in enumerate(problem.slots):
            assert counts[problem.groups == group].sum() <= slots


Way = Callable[[Opened, Worth], Trial]
both_ways = pytest.mark.parametrize(
    "way", [None, ContentsTrial.of], ids=["by sizes", "by contents"]
)


def prices_of(problem: Problem) -> Worth:
    """Those of the fluid bound."""
    market = worth(problem, NO_EXTENDED)
    assert market is not None
    return market


def exchanged(
    problem: Problem, packing: list[Pattern], effort: float = 1000.0, way: Way | None = None
) -> list[Pattern]:
    return Exchange(problem, prices_of(problem), way).improved(packing, Effort(effort))


@both_ways
def test_two_half_empty_machines_become_one_of_the_size_that_suits(way: Way | None) -> None:
    problem = problem_of([(3, 4)], [(8, 80), (12, 120), (16, 160)])
    found = exchanged(problem, [machine(2, 2), machine(2, 2)], way=way)
    assert [(one.offer, one.counts.tolist()) for one in found] == [(1, [4])]


@both_ways
def test_a_packing_without_a_better_one_stays(way: Way | None) -> None:
    problem = problem_of([(4, 4)], [(8, 80)])
    packing = [machine(0, 2), machine(0, 2)]
    found = exchanged(problem, packing, way=way)
    assert cost_of(found, problem.price) == cost_of(packing, problem.price)


@both_ways
def test_limits_per_host_hold_after_an_exchange(way: Way | None) -> None:
    """The four pods would fit in one large machine, but at most two of them may share one."""
    sizes = [(4, 50), (8, 80), (16, 130)]
    problem = problem_of([(2, 4)], sizes, group=[0], slots=(2,))
    found = exchanged(problem, [machine(1, 2), machine(2, 2)], way=way)
    assert_possible(problem, found)
    assert sorted(one.offer for one in found) == [0, 0]


@both_ways
def test_without_effort_nothing_is_exchanged(way: Way | None) -> None:
    problem = problem_of([(3, 4)], [(8, 80), (12, 120), (16, 160)])
    packing = [machine(2, 2), machine(2, 2)]
    assert exchanged(problem, packing, effort=1.0, way=way) == packing


def test_pods_that_share_room_only_on_paper_get_a_machine_of_their_own() -> None:
    """Three pods of 5 fill two machines of 8 by their sum; only two of them fit."""
    problem = problem_of([(5, 3)], [(8, 80), (6, 79)])
    known = [machine(1, 1), machine(1, 1), machine(1, 1)]
    offers = np.arange(2)
    found = cheapest_machines(problem, offers, known, Effort(1000.0))
    assert found is not None
    assert_possible(problem, found)
    assert pods_in(problem, found).tolist() == [3]


def test_columns_are_offerings_and_the_classes_that_fit_them() -> None:
    problem = problem_of([(3, 4), (10, 1)], [(8, 80), (12, 120)])
    assert columns_of(problem, np.arange(2)) == 2 + 3


@both_ways
def test_an_exchange_is_the_same_each_time(way: Way | None) -> None:
    pods = [(3, 7), (5, 4), (2, 9)]
    problem = problem_of(pods, [(8, 80), (12, 118), (16, 155), (32, 300)])
    packing = [machine(3, 7, 0, 5), machine(3, 0, 4, 4)]
    first = exchanged(problem, packing, way=way)
    assert repr(exchanged(problem, packing, way=way)) == repr(first)


def test_contents_are_searched_for_that_no_machine_has() -> None:
    """One pod of 7 leaves room in its machine that no other pod fits, and a larger machine holds all three."""
    problem = problem_of([(7, 1), (5, 1), (4, 1)], [(10, 100), (16, 150)])
    packing = [machine(0, 1), machine(0, 0, 1, 1)]
    found = exchanged(problem, packing, way=ContentsTrial.of)
    assert [(one.offer, one.counts.tolist()) for one in found] == [(1, [1, 1, 1])]


def test_the_effort_is_counted() -> None:
    problem = problem_of([(7, 2), (5, 2), (4, 2)], [(10, 100), (16, 150)])
    opened = Opened.of(problem, [machine(0, 1), machine(0, 0, 1, 1)])
    trial = ContentsTrial.of(opened, prices_of(problem))
    effort = Effort(1000.0, used=500.0)
    trial.solve(effort)
    assert 500.0 < effort.used < 1000.0


@pytest.mark.slow
@both_ways
@pytest.mark.parametrize("effort", [20.0, 400.0])
@given(
    pods=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), min_size=1, max_size=4),
    sizes=st.lists(st.tuples(st.integers(9, 40), st.integers(50, 400)), min_size=1, max_size=5),
    slots=st.integers(1, 4),
)
def test_an_exchange_keeps_every_pod_and_is_never_dearer(
    way: Way | None,
    effort: float,
    pods: list[tuple[int, int]],
    sizes: list[tuple[int, int]],
    slots: int,
) -> None:
    group = [0 if at % 2 else -1 for at in range(len(pods))]
    problem = problem_of(pods, sizes, group=group, slots=(slots,))
    one_each = [
        Pattern(at % len(sizes), np.array([row]), np.array([1]), 1)
        for row, (_, number) in enumerate(pods)
        for at in range(number)
    ]
    found = exchanged(problem, one_each, effort, way)
    assert_possible(problem, found)
    assert pods_in(problem, found).tolist() == problem.counts.tolist()
    assert cost_of(found, problem.price) <= cost_of(one_each, problem.price)
