"""Whole machines from the mix of column generation, rounded in steps.

The linear program gives a fractional number of each content. Its whole part is kept, or else the largest fractions;
then the program is solved again for the pods that are left, with contents that suit them. What is lost in the last
machines is left to exchanges of machines.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import Worth
from shared.solver.lowest_cost.contents.columns import Master
from shared.solver.lowest_cost.contents.room_prices import ContentProgram
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Pattern, Problem, dense

_BEST_OFFERS, _OTHER_OFFERS = 64, 24
"""Offerings priced per round: those that were best last, and others in turn."""
_MOST_ROUNDS = 60
_FIRST_WEIGHT, _LEAST_WEIGHT = 0.6, 0.05
"""Weight of the earlier prices: at first, and below which the search for contents ends."""
_MOST_STEPS = 80
_FRACTIONS_PER_STEP, _LEAST_FRACTION = 0.15, 0.3
_LEAST_WORTH = 0.985
"""A machine for pods that are worth a smaller share of its price waits for a later step."""
_TOLERANCE = 1e-6

Solved = tuple[Floats, Floats]
"""Price of each class, number of each content."""


class Dived(NamedTuple):
    """What a dive found."""

    machines: list[Pattern]
    left: Counts
    """[classes]: pods that are in none of them."""
    prices: Floats
    """[classes]: of these pods."""


class Dive:
    """One search for machines. ``packings``: each holds all pods; their contents are known at first."""

    def __init__(self, problem: Problem, market: Worth, packings: list[list[Pattern]]) -> None:
        fitting = problem.fits.any(axis=1)
        self._problem = replace(problem, counts=np.where(fitting, problem.counts, 0))
        self._master = Master(self._problem)
        for pattern in (one for packing in packings for one in packing):
            self._master.add(pattern.offer, dense(problem, pattern))
        self._score: Floats = np.where(problem.fits.any(axis=0), market.efficiency, -1.0)
        self._usable: Indices = np.flatnonzero(self._score > 0)
        self._guide = market.pods
        self._turn = 0
        self.market = market
        """Once it ran: the prices of the mix of all pods."""

    @property
    def contents(self) -> list[Pattern]:
        """All that it knows: those of the packings, and what it found."""
        return self._master.patterns

    def run(self, effort: Effort, rounds_per_step: int = 2) -> Dived | None:
        """The machines; None when the solver fails. ``rounds_per_step``: how often contents are looked for after each
        step."""
        left = self._problem.counts.copy()
        self._master.demand(left)
        part = effort.part(0.5)
        solved = self._solved(left, _MOST_ROUNDS, part)
        effort.spend(part)
        if solved is not None:
            self.market = Worth(solved[0], self._score.copy(), self.market.bound)
        found: list[Pattern] = []
        for step in range(_MOST_STEPS):
            if solved is None:
                return None
            if not left.any() or not effort.is_left:
                break
            found += self._fixed(solved, left, whole_only=step == 0)
            self._master.demand(left)
            solved = self._solved(left, rounds_per_step, effort)
        return None if solved is None else Dived(found, left, solved[0])

    def _solved(self, left: Counts, rounds: int, effort: Effort) -> Solved | None:
        """The mix for these pods, after some rounds of new contents."""
        weight = _FIRST_WEIGHT
        program = ContentProgram(replace(self._problem, counts=left))
        solved = self._master.solve(effort)
        for _ in range(rounds):
            if solved is None or not effort.is_left or weight < _LEAST_WEIGHT:
                break
            guide = weight * self._guide + (1 - weight) * solved[0]
            if self._add(program, guide, solved[0], effort):
                self._guide = (self._guide + guide) / 2
                solved = self._master.solve(effort)
            else:
                weight /= 2
        return solved

    def _add(self, program: ContentProgram, guide: Floats, worth: Floats, effort: Effort) -> int:
        offers = self._chosen()
        price = self._problem.price[offers]
        proof = program.room_prices(guide, offers, effort)
        self._score[offers] = proof.ceiling / price
        contents = program.whole(proof, offers)
        gain = contents @ worth > price * (1 + _TOLERANCE)
        return sum(
            self._master.add(int(offers[row]), contents[row]) for row in np.flatnonzero(gain)
        )

    def _chosen(self) -> Indices:
        order = np.argsort(-self._score[self._usable], kind="stable")
        others = (self._turn + np.arange(min(_OTHER_OFFERS, len(self._usable)))) % len(self._usable)
        self._turn += _OTHER_OFFERS
        return np.unique(np.concatenate([self._usable[order[:_BEST_OFFERS]], self._usable[others]]))

    def _fixed(self, solved: Solved, left: Counts, *, whole_only: bool) -> list[Pattern]:
        """Machines that are kept: the whole ones of the mix, or else those of the largest fractions. Subtracts their
        pods from ``left``."""
        worth, number = solved
        whole = np.floor(number + _TOLERANCE).astype(np.int64)
        order = np.argsort(-number, kind="stable")
        found: list[Pattern] = []
        for at in order[whole[order] > 0]:
            for _ in range(int(whole[at])):
                self._keep(self._master.patterns[at], worth, left, found)
        if found or whole_only:
            return found
        fractions = np.count_nonzero(number > _TOLERANCE)
        for at in order[: max(1, int(fractions * _FRACTIONS_PER_STEP))]:
            if number[at] > _LEAST_FRACTION or not found:
                self._keep(self._master.patterns[at], worth, left, found)
        return found

    def _keep(self, pattern: Pattern, worth: Floats, left: Counts, found: list[Pattern]) -> None:
        counts = np.minimum(pattern.counts, left[pattern.classes])
        value = float(worth[pattern.classes] @ counts) / self._problem.price[pattern.offer]
        if not counts.any() or (found and value < _LEAST_WORTH):
            return
        left[pattern.classes] -= counts
        held = counts > 0
        found.append(Pattern(pattern.offer, pattern.classes[held], counts[held], 1))
