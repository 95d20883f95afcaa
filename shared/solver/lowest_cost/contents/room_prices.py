"""Prices of a machine's room from the linear program of one machine's content, for many offerings in turn."""

from __future__ import annotations

import highspy
import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import quiet_solver
from shared.solver.lowest_cost.contents.diagram import RoomPrices
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Problem

_RUN_UNITS, _ENTRY_UNITS = 0.15, 0.000_08
"""Units of one run: at least, and per entry of the program."""
_FILLED_UP = 24
"""Classes that are tried, of each offering, to use the room that rounding down leaves."""
_TOLERANCE = 1e-7


class ContentProgram:
    """The program ``most worth of fractional pods in one machine``; only its limits change between offerings."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._most = most_of_classes(problem)
        self._scale = np.maximum(problem.capacity.max(axis=0), 1.0)
        classes, resources = problem.requests.shape
        width = resources + len(problem.slots)
        matrix = np.zeros((width, classes))
        matrix[:resources] = (problem.requests / self._scale).T
        grouped = np.flatnonzero(problem.groups >= 0)
        matrix[resources + problem.groups[grouped], grouped] = 1.0
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = classes, width
        model.col_cost_ = np.zeros(classes)
        model.col_lower_, model.col_upper_ = np.zeros(classes), np.ones(classes)
        model.row_lower_ = np.full(width, -highspy.kHighsInf)
        model.row_upper_ = np.concatenate([np.ones(resources), problem.slots.astype(float)])
        kept = matrix != 0
        self._units = max(_RUN_UNITS, _ENTRY_UNITS * np.count_nonzero(kept))
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.append(0, np.cumsum(kept.sum(axis=1))).astype(np.int32)
        model.a_matrix_.index_ = np.nonzero(kept)[1].astype(np.int32)
        model.a_matrix_.value_ = matrix[kept]
        self._solver = quiet_solver()
        self._solver.setOptionValue("presolve", "off")
        self._solver.passModel(model)

    def room_prices(self, prices: Floats, offers: Indices, effort: Effort) -> RoomPrices:
        """Prices of the room of these offerings. ``prices``: [classes], of pods."""
        problem = self._problem
        resources = problem.requests.shape[1]
        unit = max(float(prices.max(initial=0.0)), 1.0)
        columns = np.arange(len(prices), dtype=np.int32)
        solver = self._solver
        solver.changeColsCost(len(columns), columns, -prices / unit)
        rows, nothing = np.arange(resources, dtype=np.int32), np.zeros(len(prices))
        unlimited = np.full(resources, -highspy.kHighsInf)
        found = np.zeros((len(offers), resources + len(problem.slots)))
        self.fractional = np.zeros((len(offers), len(prices)))
        for at, offer in enumerate(offers):
            upper = (self._most * problem.fits[:, offer]).astype(np.float64)
            solver.changeColsBounds(len(columns), columns, nothing, upper)
            room = problem.capacity[offer] / self._scale
            solver.changeRowsBounds(resources, rows, unlimited, room)  # type: ignore[attr-defined]
            solver.run()
            if solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
                solution = solver.getSolution()
                found[at] = np.maximum(-np.array(solution.row_dual), 0.0) * unit
                self.fractional[at] = solution.col_value
        effort.used += self._units * len(offers)
        room, slots = found[:, :resources] / self._scale, found[:, resources:]
        return proved(problem, prices, offers, room, slots)

    def whole(self, proof: RoomPrices, offers: Indices) -> Counts:
        """[offers, classes]: the contents of the last call of ``room_prices``, rounded down and then filled up."""
        problem, rows = self._problem, np.arange(len(offers))
        found = np.floor(self.fractional + _TOLERANCE).astype(np.int64)
        found[(found @ problem.requests > problem.capacity[offers]).any(axis=1)] = 0
        room = problem.capacity[offers] - found @ problem.requests
        slots = problem.slots - found @ _membership(problem)
        wanted = np.where(proof.most > found, -proof.surplus, np.inf)
        for which in np.argsort(wanted, axis=1, kind="stable")[:, :_FILLED_UP].T:
            size = problem.requests[which]
            fitting = np.where(size > 0, room / np.where(size > 0, size, 1.0), np.inf).min(axis=1)
            more = np.minimum(np.floor(fitting), proof.most[rows, which] - found[rows, which])
            group = problem.groups[which]
            if len(problem.slots):
                more = np.where(group >= 0, np.minimum(more, slots[rows, group]), more)
            pods = np.maximum(more, 0.0).astype(np.int64)
            found[rows, which] += pods
            room -= pods[:, None] * size
            slots -= pods[:, None] * _membership(problem)[which]
        return found


def proved(
    problem: Problem, prices: Floats, offers: Indices, room: Floats, slots: Floats
) -> RoomPrices:
    """What these prices of room prove."""
    most = most_of_classes(problem)[None, :] * problem.fits[:, offers].T
    surplus = prices[None, :] - room @ problem.requests.T
    grouped = np.flatnonzero(problem.groups >= 0)
    surplus[:, grouped] -= slots[:, problem.groups[grouped]]
    ceiling = (room * problem.capacity[offers]).sum(axis=1)
    ceiling += slots @ problem.slots.astype(np.float64)
    ceiling += (most * np.maximum(surplus, 0.0)).sum(axis=1)
    return RoomPrices(room, slots, most, surplus, ceiling)


def most_of_classes(problem: Problem) -> Counts:
    """[classes]: pods of the class that one machine may hold, sizes aside."""
    most = problem.counts.copy()
    grouped = np.flatnonzero(problem.groups >= 0)
    most[grouped] = np.minimum(most[grouped], problem.slots[problem.groups[grouped]])
    return most


def _membership(problem: Problem) -> Counts:
    """[classes, groups]: 1 where the class is in the group."""
    found: Counts = (problem.groups[:, None] == np.arange(len(problem.slots))).astype(np.int64)
    return found
