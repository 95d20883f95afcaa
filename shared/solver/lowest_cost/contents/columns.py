"""Column generation: better prices of pods, derived from whole machines.

A linear program covers all pods with a mix of known machines. Its dual prices show which further machines would lower
the cost; these are added and the program is solved again. Unlike the prices of ``dual``, these account for the contents
that whole pods can form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import highspy
import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.bound.dual import Worth, quiet_solver
from shared.solver.lowest_cost.fill import Effort, fill
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, dense

_MAX_ROUNDS = 40
_OFFERS_PER_ROUND = 48
"""Offerings tried per round, the most efficient first."""
_PORTION_SHARES = (1.3, np.inf)
_OLD_PRICE_WEIGHT = 0.6
"""Weight of the previous prices: without smoothing the prices jump and lead to useless machines."""
_PIVOT_UNITS, _RUN_UNITS = 0.01, 0.5
_FEW_CLASSES = 60
"""With more classes a pivot takes longer."""
_TOLERANCE = 1e-6


class Limit(NamedTuple):
    """How many machines of some offerings there may be."""

    offers: Mask
    """[offers]: machines of these count."""
    number: int
    is_least: bool
    """At least so many; else at most."""


class Master:
    """The linear program over known machines. ``limits``: on their numbers."""

    def __init__(self, problem: Problem, limits: Sequence[Limit] = ()) -> None:
        self._limits = limits
        self._classes = len(problem.counts)
        self._unit = float(problem.price.mean())
        self._price = problem.price / self._unit
        self._solver = quiet_solver()
        self._known: set[tuple[int, bytes]] = set()
        self.columns: list[tuple[int, Floats | Counts]] = []
        """Offering and content of each: of ``patterns``, and of contents that no machine can have."""
        self._whole: list[int] = []
        self._forgotten: set[int] = set()
        self.patterns: list[Pattern] = []
        self.numbers: Floats = np.zeros(0)
        """[columns]: of each machine, once the program is solved."""
        none = np.zeros(0)
        for count in problem.counts:
            self._solver.addRow(float(count), highspy.kHighsInf, 0, none.astype(np.int32), none)
        for limit in limits:
            least = limit.number if limit.is_least else -highspy.kHighsInf
            most = highspy.kHighsInf if limit.is_least else limit.number
            self._solver.addRow(float(least), float(most), 0, none.astype(np.int32), none)
        self._pivot_units = _PIVOT_UNITS * max(1.0, self._classes / _FEW_CLASSES) ** 2
        self._others = len(problem.counts) if limits else 0
        if limits:
            self._add_ways_out(problem)

    def _add_ways_out(self, problem: Problem) -> None:
        """A column for each class, at more than any plan costs: so the program has a solution if limits leave none."""
        alone = np.where(problem.fits, self._price, np.inf).min(axis=1, initial=np.inf)
        cost = float(problem.counts @ np.where(np.isfinite(alone), alone, 0.0))
        for row in range(self._others):
            self._solver.addCol(
                cost, 0.0, highspy.kHighsInf, 1, np.array([row], np.int32), np.ones(1)
            )

    def add(self, offer: int, counts: Counts) -> bool:
        """Adds a machine; False when it is known already. ``counts``: [classes]."""
        key = (offer, counts.tobytes())
        if key in self._known:
            return False
        self._known.add(key)
        self._whole.append(len(self.columns))
        rows = self._append(offer, counts)
        self.patterns.append(Pattern(offer, rows, counts[rows], 1))
        return True

    def add_relaxed(self, offer: int, content: Floats | Counts) -> bool:
        """Adds a content that no machine can have, but that cannot be ruled out either: it counts for prices only.
        False when it is known already. ``content``: [classes]."""
        key = (offer, content.tobytes())
        if key in self._known:
            return False
        self._known.add(key)
        self._append(offer, content)
        return True

    def forget_relaxed(self) -> None:
        """Leaves out all contents that no machine can have: from now on more is known about what can be."""
        whole = set(self._whole)
        for at, (offer, content) in enumerate(self.columns):
            if at not in whole and at not in self._forgotten:
                self._solver.changeColBounds(self._others + at, 0.0, 0.0)
                self._known.discard((offer, content.tobytes()))
                self._forgotten.add(at)

    def in_use(self) -> list[tuple[int, Floats | Counts]]:
        """The ``columns`` that are not forgotten."""
        return [one for at, one in enumerate(self.columns) if at not in self._forgotten]

    def _append(self, offer: int, content: Floats | Counts) -> Indices:
        rows = np.flatnonzero(content)
        of = [self._classes + at for at, limit in enumerate(self._limits) if limit.offers[offer]]
        self._solver.addCol(
            float(self._price[offer]),
            0.0,
            highspy.kHighsInf,
            len(rows) + len(of),
            np.append(rows, of).astype(np.int32),
            np.append(content[rows], np.ones(len(of))).astype(np.float64),
        )
        self.columns.append((offer, content))
        return rows

    def demand(self, counts: Counts) -> None:
        """From now on the program covers these pods. ``counts``: [classes]."""
        for row, count in enumerate(counts):
            self._solver.changeRowBounds(row, float(count), highspy.kHighsInf)

    def solve(self, effort: Effort) -> tuple[Floats, Floats] | None:
        """(price of each class and limit in micro-USD, number of each of ``patterns``); None when the solver fails.

        The price of a limit says what one machine more would save; it is negative where there are at most so many.
        """
        self._solver.run()
        pivots = max(0, int(self._solver.getInfo().simplex_iteration_count))
        effort.used += _RUN_UNITS + pivots * self._pivot_units
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = self._solver.getSolution()
        worth = np.array(found.row_dual, dtype=np.float64) * self._unit
        sign = np.array([1.0 if one.is_least else -1.0 for one in self._limits])
        worth[: self._classes] = np.maximum(worth[: self._classes], 0.0)
        worth[self._classes :] = np.maximum(worth[self._classes :] * sign, 0.0) * sign
        self.numbers = np.array(found.col_value, dtype=np.float64)[self._others :]
        return worth, self.numbers[self._whole]


def better_prices(
    problem: Problem, market: Worth, packings: list[list[Pattern]], effort: Effort
) -> tuple[Floats, list[Pattern]] | None:
    """(price of each class, whole machines of the program's mix); None when the solver fails.

    ``packings``: each covers all pods.
    """
    master = Master(problem)
    for pattern in (p for packing in packings for p in packing):
        master.add(pattern.offer, dense(problem, pattern))
    solved = master.solve(effort)
    if solved is None:
        return None
    guide = (market.pods + solved[0]) / 2
    efficiency = np.where(problem.fits.any(axis=0), market.efficiency, -1.0)
    offers = np.argsort(-efficiency, kind="stable")[:_OFFERS_PER_ROUND]
    for _ in range(_MAX_ROUNDS):
        if not effort.is_left:
            break
        if not _add_machines(problem, master, offers, guide, solved[0], effort):
            if np.array_equal(guide, solved[0]):
                break
            guide = solved[0]
            continue
        again = master.solve(effort)
        if again is None:
            break
        solved = again
        guide = _OLD_PRICE_WEIGHT * guide + (1 - _OLD_PRICE_WEIGHT) * solved[0]
    times = np.floor(solved[1] + _TOLERANCE).astype(np.int64)
    whole = [p._replace(copies=int(n)) for p, n in zip(master.patterns, times, strict=True) if n]
    return solved[0], whole


def _add_machines(
    problem: Problem,
    master: Master,
    offers: Indices,
    guide: Floats,
    worth: Floats,
    effort: Effort,
) -> int:
    """Adds contents that are worth more than they cost. Returns how many."""
    total = max(float(problem.counts @ guide), 1e-9)
    added = 0
    for share in _PORTION_SHARES:
        part = np.minimum(problem.price[offers] / total * share, 1.0)
        first = (problem.counts[None, :] * part[:, None]).astype(np.int64) + 1
        taken = fill(problem, np.maximum(guide, 1e-6), first, offers, 2, effort)
        gain = taken @ worth - problem.price[offers] * (1 + _TOLERANCE)
        for row in np.flatnonzero(gain > 0):
            added += master.add(int(offers[row]), taken[row])
    return added
