"""The rounded mix holds each pod once, within rooms and limits per host, and is cheaper than the packings before it."""

from __future__ import annotations

import random

import numpy as np

from shared.solver.lowest_cost.bound.dual import worth
from shared.solver.lowest_cost.contents.dive import Dive
from shared.solver.lowest_cost.fill import Effort, Style, pack, right_sized
from shared.solver.lowest_cost.problem import Pattern, Problem, cost_of
from tests.shared.solver.lowest_cost.bound.test_dual import NO_COLUMNS, problem_of

PLAIN = Style(share=1.3, size=np.inf, bulk=0.0)


def forced(seed: int) -> Problem:
    """Eight classes of up to 40 pods; two of them share one slot per machine."""
    draw = random.Random(seed)
    requests = [(draw.randint(1, 15), draw.randint(1, 30)) for _ in range(8)]
    offers = [(8 * n - 1, 16 * n - 1, 1000 * n) for n in (1, 2, 3, 4, 6, 8)]
    problem = problem_of(requests, [draw.randint(10, 40) for _ in requests], offers, most=1)
    problem.groups[1] = 0
    return problem


def dived(problem: Problem, effort: float) -> tuple[list[Pattern], list[Pattern], np.ndarray]:
    """(a packing, the machines of the dive, pods that it leaves)."""
    market = worth(problem, NO_COLUMNS)
    assert market is not None
    packing = pack(problem, market.pods, market.efficiency, PLAIN, Effort(100))
    found = Dive(problem, market, [packing]).run(Effort(effort))
    assert found is not None
    return packing, found[0], found[1]


def test_every_pod_is_placed_once_and_the_machines_are_cheaper() -> None:
    gains = []
    for seed in range(5):
        problem = forced(seed)
        packing, machines, left = dived(problem, 3000)
        held = left.copy()
        for one in machines:
            held[one.classes] += one.counts
            content = one.counts @ problem.requests[one.classes]
            assert (content <= problem.capacity[one.offer]).all()
            assert one.counts[problem.groups[one.classes] == 0].sum() <= problem.slots[0]
        assert np.array_equal(held, problem.counts)
        rest = pack(problem, *_prices(problem), PLAIN, Effort(100), left) if left.any() else []
        cost = cost_of(right_sized(problem, [*machines, *rest]), problem.price)
        gains.append(cost / cost_of(right_sized(problem, packing), problem.price))
    assert sum(gains) / len(gains) < 0.99


def test_without_effort_no_machine_is_chosen() -> None:
    problem = forced(1)
    _, machines, left = dived(problem, 0.0)
    assert machines == []
    assert np.array_equal(left, problem.counts)


def test_equal_problems_give_equal_machines() -> None:
    first, second = (dived(forced(2), 300)[1] for _ in range(2))
    assert [(p.offer, p.counts.tobytes()) for p in first] == [
        (p.offer, p.counts.tobytes()) for p in second
    ]


def _prices(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    market = worth(problem, NO_COLUMNS)
    assert market is not None
    return market.pods, market.efficiency
