"""The cheapest machines for a few pods, by one integer program over sizes of machines and the pods in them.

A column is the number of machines of an offering, or the number of pods of one class in all machines of an offering. So
several machines of one offering share their room in the program, and their pods are divided among them afterwards; the
few that then do not fit get a place elsewhere, or a machine of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np
import numpy.typing as npt

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import quiet_solver
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem

_RUN_UNITS, _PIVOT_UNITS = 5.0, 0.18
_PIVOTS_PER_COLUMN = 3.0
"""What a program usually takes."""
_GAP = 0.002
"""A plan this share above the best possible one is good enough."""


def expected_units(columns: int) -> float:
    """The work of a program with so many columns, as far as one can know before."""
    return _RUN_UNITS + _PIVOT_UNITS * _PIVOTS_PER_COLUMN * columns


def columns_of(problem: Problem, offers: Indices) -> int:
    """The number of columns of the program."""
    return len(offers) + int(problem.fits[:, offers].sum())


def cheapest_machines(
    problem: Problem, offers: Indices, known: list[Pattern], effort: Effort
) -> list[Pattern] | None:
    """Machines of these offerings for all pods of the problem, each with ``copies`` 1; None when nothing is found.

    ``known``: machines of these offerings that hold all pods, to begin with.
    """
    for one_by_one in (False, True):
        program = _Program(problem, offers, one_by_one=one_by_one)
        solved = program.solve(known, effort)
        if solved is None:
            return None
        left = problem.counts.copy()
        machines = program.machines(solved, left)
        _fill_up(problem, machines, left)
        if not left.any():
            return [_pattern(one.offer, one.counts) for one in machines]
        # Now of these offerings only, each as often as it is needed, so that the program knows each machine's room.
        offers = np.array(sorted([m.offer for m in machines] + [p.offer for p in known]))
    return None


class _Program:
    """The integer program over some offerings."""

    def __init__(self, problem: Problem, offers: Indices, *, one_by_one: bool) -> None:
        """``one_by_one``: there is at most one machine of each entry of ``offers``, which may have equal ones."""
        self._problem = problem
        self._offers = offers
        self._most = 1.0 if one_by_one else float(problem.counts.sum())
        self._at, self._class = np.nonzero(problem.fits[:, offers].T)
        self._unit = float(problem.price[offers].mean())

    def machines(self, solved: Counts, left: Counts) -> list[_Machine]:
        """The machines of a solution, with the pods that fit in them, which are taken off ``left``."""
        found: list[_Machine] = []
        for at in np.flatnonzero(solved[: len(self._offers)]):
            pods = np.zeros(len(self._problem.counts), dtype=np.int64)
            mine = self._at == at
            pods[self._class[mine]] = solved[len(self._offers) :][mine]
            contents = _divided(self._problem, int(self._offers[at]), int(solved[at]), pods)
            found += [one.at_most(left) for one in contents]
        return [one for one in found if one.counts.any()]

    def solve(self, known: list[Pattern], effort: Effort) -> Counts | None:
        """[columns]: number of machines per offering, then pods per pair of an offering and a class."""
        solver = quiet_solver()
        solver.setOptionValue("solver", "choose")
        solver.setOptionValue("mip_max_nodes", 1)
        solver.setOptionValue("mip_rel_gap", _GAP)
        # Restarts take three quarters of the time and find a thirtieth of the gain.
        solver.setOptionValue("mip_allow_restart", False)
        solver.passModel(self._model())
        first = highspy.HighsSolution()
        first.col_value, first.value_valid = self._start(known), True
        solver.setSolution(first)
        solver.run()
        pivots = max(int(solver.getInfo().simplex_iteration_count), 0)
        effort.used += _RUN_UNITS + _PIVOT_UNITS * pivots
        found = np.array(solver.getSolution().col_value, dtype=np.float64)
        if len(found) != len(self._offers) + len(self._at):
            return None
        return np.rint(found).astype(np.int64)

    def _start(self, known: list[Pattern]) -> Floats:
        machines = np.zeros(len(self._offers))
        pods = np.zeros((len(self._offers), len(self._problem.counts)))
        for one in known:
            equal = np.flatnonzero(self._offers == one.offer)
            at = equal[int(machines[equal].argmin())]
            machines[at] += 1
            pods[at, one.classes] += one.counts
        return np.concatenate([machines, pods[self._at, self._class]])

    def _model(self) -> highspy.HighsLp:
        problem, offers = self._problem, self._offers
        blocks = [self._room(column) for column in range(problem.requests.shape[1])]
        blocks += [self._slots(group) for group in range(len(problem.slots))]
        matrix = np.concatenate([self._demand(), *blocks])
        count = len(offers) + len(self._at)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = count, len(matrix)
        model.col_cost_ = np.concatenate(
            [problem.price[offers] / self._unit, np.zeros(len(self._at))]
        )
        model.col_lower_ = np.zeros(count)
        most = np.full(len(offers), self._most)
        model.col_upper_ = np.concatenate([most, problem.counts[self._class].astype(float)])
        limits = len(matrix) - len(problem.counts)
        model.row_lower_ = np.append(problem.counts.astype(float), [-highspy.kHighsInf] * limits)
        model.row_upper_ = np.append([highspy.kHighsInf] * len(problem.counts), np.zeros(limits))
        kept = matrix != 0
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.append(0, np.cumsum(kept.sum(axis=1))).astype(np.int32)
        model.a_matrix_.index_ = np.nonzero(kept)[1].astype(np.int32)
        model.a_matrix_.value_ = matrix[kept]
        model.integrality_ = [highspy.HighsVarType.kInteger] * count
        return model

    def _demand(self) -> Floats:
        """Each pod of each class is in some machine."""
        found = np.zeros((len(self._problem.counts), len(self._offers) + len(self._at)))
        found[self._class, len(self._offers) + np.arange(len(self._at))] = 1.0
        return found

    def _room(self, resource: int) -> Floats:
        """The pods in an offering's machines have room in them."""
        capacity = self._problem.capacity[self._offers, resource]
        scale = max(float(capacity.max(initial=0.0)), 1.0)
        requests = self._problem.requests[self._class, resource]
        return self._limits(requests / scale, capacity / scale)

    def _slots(self, group: int) -> Floats:
        """So many pods of a host group as there are slots."""
        counted = (self._problem.groups[self._class] == group).astype(np.float64)
        slots = np.full(len(self._offers), float(self._problem.slots[group]))
        return self._limits(counted, slots)

    def _limits(self, used: npt.NDArray[np.float64], given: Floats) -> Floats:
        """A row per offering: what its pods use is at most what its machines give."""
        count = len(self._offers)
        found = np.zeros((count, count + len(self._at)))
        found[np.arange(count), np.arange(count)] = -given
        found[self._at, count + np.arange(len(self._at))] = used
        return found


@dataclass(slots=True, eq=False)
class _Machine:
    """A machine while pods are added."""

    problem: Problem
    offer: int
    counts: Counts
    """[classes]."""
    room: Floats

    @classmethod
    def empty(cls, problem: Problem, offer: int) -> _Machine:
        counts = np.zeros(len(problem.counts), dtype=np.int64)
        return cls(problem, offer, counts, problem.capacity[offer].copy())

    def takes(self, which: int) -> bool:
        """Is there room for one more pod of a class?"""
        problem = self.problem
        if not problem.fits[which, self.offer] or (self.room < problem.requests[which]).any():
            return False
        group = problem.groups[which]
        return bool(group < 0 or self.counts[problem.groups == group].sum() < problem.slots[group])

    def add(self, which: int) -> None:
        self.counts[which] += 1
        self.room -= self.problem.requests[which]

    def spare(self, which: int) -> float:
        """The scarcest resource, as a share, once one more pod of a class is there."""
        capacity = np.maximum(self.problem.capacity[self.offer], 1.0)
        return float(((self.room - self.problem.requests[which]) / capacity).min())

    def at_most(self, left: Counts) -> _Machine:
        """Without pods that are not in ``left``; the others are taken off it."""
        excess = np.maximum(self.counts - left, 0)
        self.counts -= excess
        self.room += excess @ self.problem.requests
        left -= self.counts
        return self


def _large_first(problem: Problem, counts: Counts) -> list[int]:
    """The classes that have pods, the largest first."""
    share = (problem.requests / np.maximum(problem.capacity.max(axis=0), 1.0)).max(axis=1)
    order = np.argsort(-share, kind="stable")
    return [int(which) for which in order if counts[which]]


def _divided(problem: Problem, offer: int, number: int, counts: Counts) -> list[_Machine]:
    """Equal machines with these pods divided among them; pods that do not fit are left out."""
    found = [_Machine.empty(problem, offer) for _ in range(number)]
    if number == 1:
        found[0].counts += counts
        found[0].room -= counts @ problem.requests
        return found
    for which in _large_first(problem, counts):
        for _ in range(int(counts[which])):
            fitting = [one for one in found if one.takes(which)]
            if not fitting:
                break
            max(fitting, key=lambda one: one.spare(which)).add(which)
    return found


def _fill_up(problem: Problem, machines: list[_Machine], left: Counts) -> None:
    """Moves pods from ``left`` into room of the machines."""
    for which in _large_first(problem, left):
        for one in machines:
            while left[which] and one.takes(which):
                one.add(which)
                left[which] -= 1


def _pattern(offer: int, counts: Counts) -> Pattern:
    held = np.flatnonzero(counts)
    return Pattern(offer, held, counts[held], 1)
