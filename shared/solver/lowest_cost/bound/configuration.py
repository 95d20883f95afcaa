"""The configuration bound: the least that whole machines with whole pods in them cost, machines being divisible.

A linear program over contents of machines gives prices of pods. No content may be worth more than its machine costs;
contents that are worth more are found and added, and the program is solved again. At any time the prices, scaled down
by what the most valuable content of each offering exceeds its price, prove a bound (Farley's): so the search may stop
after any amount of work.

Prices of pods are whole thousandths of a micro-USD. How much a content can be worth comes from prices of room and from
``Diagram``: sums of at most some thousand terms that are all at least zero, whose relative rounding error is below
1e-12; ``_ROUNDING`` is far above that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.contents.columns import Master
from shared.solver.lowest_cost.contents.diagram import Diagram, RoomPrices
from shared.solver.lowest_cost.contents.room_prices import ContentProgram
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, dense

_SCALE = 1000.0
"""Prices of pods are whole numbers of this part of a micro-USD."""
_ROUNDING = 1e-9
_ENOUGH, _TOLERANCE = 1.0002, 1e-6
_FIRST_WEIGHT, _LEAST_WEIGHT = 0.7, 0.05
"""Weight of the best prices so far beside those of the linear program, which jump: at first, and until it is 0."""
_MARGIN = 1.0002
"""How far above the price of their machine contents need not be told apart."""
_EASY = 4000
"""Pairs of classes and offerings up to which every round searches; others search once rounding finds nothing."""
_WIDTHS = (300, 3000)
"""States of a search: while contents are still found, and once no more are."""
_MAX_ROUNDS = 200
_NEIGHBOURS_PER_OFFER = 400


class Configuration:
    """One bound, improved as long as effort is left. ``known``: contents to start with; ``prices``: proved prices of
    pods, in micro-USD."""

    def __init__(self, problem: Problem, prices: Floats, known: Sequence[Pattern]) -> None:
        fitting = problem.fits.any(axis=1)
        self.problem = replace(problem, counts=np.where(fitting, problem.counts, 0))
        self._offers: Indices = np.flatnonzero(problem.fits.any(axis=0))
        self._price = problem.price[self._offers] * _SCALE
        self.master = Master(self.problem)
        for pattern in (*known, *_of_one_class(self.problem)):
            self.master.add(pattern.offer, dense(problem, pattern))
        self._program = ContentProgram(self.problem)
        self.prices: Floats = np.floor(np.where(fitting, prices, 0.0) * _SCALE)
        self.bound = float(self.problem.counts @ self.prices)
        """In thousandths of a micro-USD per hour."""

    @property
    def micro_usd_per_hour(self) -> int:
        """The bound, rounded down."""
        return int(self.bound // _SCALE)

    def improve(self, effort: Effort) -> None:
        """Raises the bound until it is nearly that of the linear program or the effort is used up."""
        weight, width = _FIRST_WEIGHT, _WIDTHS[0]
        solved = self.master.solve(effort)
        for _ in range(_MAX_ROUNDS):
            if solved is None or not effort.is_left:
                return
            worth = np.floor(solved[0] * _SCALE)
            if float(self.problem.counts @ worth) <= self.bound * _ENOUGH:
                return
            before = self.bound
            if self._round(
                np.floor(weight * self.prices + (1 - weight) * worth), worth, width, effort
            ):
                solved = self.master.solve(effort)
            elif weight > 0:
                weight = weight / 2 if weight > _LEAST_WEIGHT else 0.0
            elif width == _WIDTHS[-1] and self.bound <= before * _ENOUGH:
                return
            else:
                width = _WIDTHS[-1]

    def add_neighbours(self, cost: float, effort: Effort) -> None:
        """Adds contents that a plan cheaper than ``cost`` (micro-USD per hour) may have: no content of such a plan is
        worth less than its machine costs by more than that plan is dearer than the bound."""
        proof = self._program.room_prices(self.prices, self._offers, effort)
        target = np.maximum(self._price - (cost * _SCALE - self.bound), 0.0)
        open_to = np.flatnonzero(proof.ceiling > target)
        diagram = self._diagram(self.prices, proof, target, open_to, _WIDTHS[-1])
        _, rows, contents = diagram.run(effort, _NEIGHBOURS_PER_OFFER)
        anything = np.full(len(self.prices), np.inf)
        self._add(self._offers[open_to[rows]], contents, anything)

    def _round(self, guide: Floats, worth: Floats, width: int, effort: Effort) -> int:
        """Proves what it can at the prices ``guide`` and adds contents. Returns how many."""
        proof = self._program.room_prices(guide, self._offers, effort)
        most = proof.ceiling
        added = self._add(self._offers, self._program.whole(proof, self._offers), worth)
        target = self._price * _MARGIN
        open_to = np.flatnonzero(most > target)
        is_easy = len(open_to) * np.count_nonzero(self.problem.counts) <= _EASY
        if len(open_to) and effort.is_left and (is_easy or not added):
            most = most.copy()
            diagram = self._diagram(guide, proof, target, open_to, width)
            found, rows, contents = diagram.run(effort)
            most[open_to] = np.minimum(most[open_to], found)
            added += self._add(self._offers[open_to[rows]], contents, worth)
        self._prove(guide, most)
        return added

    def _diagram(
        self, prices: Floats, proof: RoomPrices, target: Floats, rows: Indices, width: int
    ) -> Diagram:
        offers = self._offers[rows]
        return Diagram(self.problem, offers, prices, proof.only(rows), target[rows], width)

    def _prove(self, prices: Floats, most: Floats) -> None:
        """Scales the prices so that no content is worth more than its machine costs, and keeps them if they are better.

        A class is scaled by the worst offering that it fits: a content of an offering then shrinks at least as much as
        that offering needs.
        """
        share = np.minimum(1.0, self._price / np.maximum(most, 1.0))
        fits = self.problem.fits[:, self._offers]
        scale = np.where(fits, share, np.inf).min(axis=1, initial=np.inf)
        scaled = np.floor(prices * np.where(np.isfinite(scale), scale, 0.0) * (1 - _ROUNDING))
        bound = float(self.problem.counts @ scaled)
        if bound > self.bound:
            self.prices, self.bound = scaled, bound

    def _add(self, offers: Indices, contents: Counts, worth: Floats) -> int:
        """Adds the contents that fit and are worth more than they cost. Returns how many."""
        problem = self.problem
        good = (contents * np.where(contents > 0, worth, 0.0)).sum(axis=1) > problem.price[
            offers
        ] * _SCALE * (1 + _TOLERANCE)
        good &= (contents @ problem.requests <= problem.capacity[offers]).all(axis=1)
        good &= ~((contents > 0) & ~problem.fits[:, offers].T).any(axis=1)
        good &= (contents <= problem.counts).all(axis=1)
        for group, slots in enumerate(problem.slots):
            good &= contents[:, problem.groups == group].sum(axis=1) <= slots
        return sum(self.master.add(int(offers[row]), contents[row]) for row in np.flatnonzero(good))


def _of_one_class(problem: Problem) -> list[Pattern]:
    """Each class alone on the offering that is cheapest per pod, so that the program has a solution."""
    found = []
    for row in np.flatnonzero(problem.counts > 0):
        size = problem.requests[row]
        most = np.where(size > 0, problem.capacity / np.where(size > 0, size, 1.0), np.inf)
        pods = np.minimum(np.floor(most.min(axis=1)), problem.counts[row])
        if problem.groups[row] >= 0:
            pods = np.minimum(pods, problem.slots[problem.groups[row]])
        usable = problem.fits[row] & (pods > 0)
        each = np.where(usable, problem.price / np.maximum(pods, 1.0), np.inf)
        offer = int(each.argmin())
        counts = np.array([int(pods[offer])], dtype=np.int64)
        found.append(Pattern(offer, np.array([row], dtype=np.intp), counts, 1))
    return found
