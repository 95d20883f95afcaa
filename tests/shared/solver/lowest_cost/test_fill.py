"""Filling machines: limits hold, work is counted, and the same input gives the same machines."""

from __future__ import annotations

import numpy as np

from shared.solver.lowest_cost.fill import Effort, Style, fill, pack
from shared.solver.lowest_cost.problem import Problem

PLAIN = Style(share=1.3, size=1.5, bulk=0.0)


def problem() -> Problem:
    requests = np.array([[1.0, 4.0], [4.0, 1.0]])
    capacity = np.array([[10.0, 10.0], [20.0, 20.0], [3.0, 3.0]])
    fits = np.array([[True, True, False], [True, True, False]])
    return Problem(
        requests,
        np.array([40, 40]),
        np.array([0, -1]),
        np.array([2]),
        capacity,
        np.array([10.0, 19.0, 1.0]),
        fits,
        fits,
    )


def test_contents_fit_and_respect_limits_per_machine() -> None:
    given = problem()
    offers = np.array([0, 1])
    first = np.ones((2, 2), dtype=np.int64)
    taken = fill(given, np.array([1.0, 1.0]), first, offers, 2, Effort(10))
    assert (taken @ given.requests <= given.capacity[offers]).all()
    assert taken[:, 0].max() == 2
    assert taken[:, 1].min() >= 2


def test_all_pods_are_packed_and_work_is_counted() -> None:
    given, effort = problem(), Effort(1)
    worth, most = np.array([1.0, 1.0]), np.full(3, np.inf)
    patterns = pack(given, worth, most, PLAIN, effort)
    placed = [p.copies * np.bincount(p.classes, p.counts, minlength=2) for p in patterns]
    assert list(np.sum(placed, axis=0)) == [40, 40]
    assert effort.used > 0
    again = pack(given, worth, most, PLAIN, Effort(1))
    assert [(p.offer, p.copies, list(p.counts)) for p in patterns] == [
        (p.offer, p.copies, list(p.counts)) for p in again
    ]


def test_pods_that_no_offering_fits_are_left_out() -> None:
    given = problem()
    given.fits = np.array([[True, True, False], [False, False, False]])
    patterns = pack(given, np.ones(2), np.full(3, np.inf), PLAIN, Effort(10))
    assert {int(c) for p in patterns for c in p.classes} == {0}
