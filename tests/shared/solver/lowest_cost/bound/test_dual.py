"""The lower bound is below every packing, and a machine's pods are never worth more than its price."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.solver.lowest_cost.bound.dual import worth
from shared.solver.lowest_cost.demand import fit
from shared.solver.lowest_cost.fill import Effort, Style, pack, right_sized
from shared.solver.lowest_cost.problem import Problem, cost_of

NO_COLUMNS = np.zeros(0, dtype=np.intp)
PLAIN = Style(share=1.3, size=1.5, bulk=0.0)


def problem_of(
    requests: list[tuple[int, int]], counts: list[int], offers: list[tuple[int, int, int]],
    most: int = 0,
) -> Problem:  # fmt: skip
    """``offers``: (cpu, memory, price); ``most``: pods of the first class per machine."""
    sizes = np.array(requests, dtype=np.float64)
    capacity = np.array([offer[:2] for offer in offers], dtype=np.float64)
    may = np.ones((len(requests), len(offers)), dtype=np.bool_)
    groups = np.full(len(requests), -1, dtype=np.intp)
    groups[0] = 0 if most else -1
    return Problem(
        sizes,
        np.array(counts, dtype=np.int64),
        groups,
        np.array([most] if most else [], dtype=np.int64),
        capacity,
        np.array([offer[2] for offer in offers], dtype=np.float64),
        may,
        fit(sizes, capacity),
    )


def cheapest(problem: Problem) -> float:
    """The cheapest cost, found by trying every set of up to four machines."""
    pods = [i for i, n in enumerate(problem.counts) for _ in range(n)]
    best = np.inf
    for many in range(1, 5):
        for machines in combinations_with_replacement(range(len(problem.price)), many):
            cost = problem.price[list(machines)].sum()
            if cost < best and _holds(problem, pods, machines):
                best = cost
    return float(best)


def _holds(problem: Problem, pods: list[int], machines: tuple[int, ...]) -> bool:
    for where in product(range(len(machines)), repeat=len(pods)):
        used = np.zeros((len(machines), problem.requests.shape[1]))
        np.add.at(used, list(where), problem.requests[pods])
        first = np.bincount([w for w, p in zip(where, pods, strict=True) if p == 0], minlength=1)
        limited = bool(len(problem.slots)) and first.max(initial=0) > problem.slots[0]
        if (used <= problem.capacity[list(machines)]).all() and not limited:
            return True
    return False


amounts = st.integers(1, 6)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(amounts, amounts), min_size=2, max_size=2),
    st.lists(st.integers(1, 2), min_size=2, max_size=2),
    st.lists(st.tuples(amounts, amounts, st.integers(1, 30)), min_size=1, max_size=2),
    st.integers(0, 1),
)
def test_no_set_of_machines_is_cheaper_than_the_bound(
    requests: list[tuple[int, int]],
    counts: list[int],
    offers: list[tuple[int, int, int]],
    most: int,
) -> None:
    problem = problem_of(requests, counts, [*offers, (12, 12, 40)], most)
    found = worth(problem, NO_COLUMNS)
    assert found is not None
    optimum = cheapest(problem)
    assert found.bound <= optimum
    packed = right_sized(problem, pack(problem, found.pods, found.efficiency, PLAIN, Effort(100)))
    assert cost_of(packed, problem.price) >= optimum
    placed = np.zeros(2, dtype=np.int64)
    for pattern in packed:
        placed[pattern.classes] += pattern.counts * pattern.copies
    assert list(placed) == counts


def test_the_bound_is_exact_where_pods_divide_machines() -> None:
    problem = problem_of([(1, 4), (4, 1)], [30, 30], [(5, 5, 10), (20, 20, 50)])
    found = worth(problem, NO_COLUMNS)
    assert found is not None
    assert 299.9 < found.bound <= 300


def test_a_limit_per_machine_raises_the_bound() -> None:
    few, many = (
        worth(problem_of([(1, 1)], [10], [(2, 2, 3), (10, 10, 10)], most), NO_COLUMNS)
        for most in (0, 1)
    )
    assert few is not None
    assert many is not None
    assert few.bound < 10.001
    assert many.bound > 29.9


def test_a_free_offering_makes_its_pods_worth_nothing() -> None:
    found = worth(problem_of([(1, 1)], [10], [(2, 2, 0), (4, 4, 7)]), NO_COLUMNS)
    assert found is not None
    assert found.bound == 0


def test_a_class_that_fits_nowhere_does_not_spoil_the_prices_of_others() -> None:
    found = worth(problem_of([(9, 9), (1, 1)], [5, 4], [(2, 2, 3)]), NO_COLUMNS)
    assert found is not None
    assert found.pods[0] == 0
    assert 5.99 < found.bound <= 6
