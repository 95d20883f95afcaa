"""Few machines of a packing as a problem of their own, whose contents are searched for anew.

Contents that are good for all pods suit the last machines of a packing badly: what is left for these has prices of its
own. For few machines both the search for contents and the program that chooses among them are small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.bound.dual import Worth
from shared.solver.lowest_cost.contents.whole import cheapest_contents
from shared.solver.lowest_cost.fill import Effort, right_sized
from shared.solver.lowest_cost.problem import Floats, Pattern, Problem

_UNITS = 100.0
"""Of the search for contents; the program takes about as much."""


@dataclass(frozen=True, eq=False)
class ContentsTrial:
    """Machines that are opened, and the problem of their pods (``Trial`` of an exchange)."""

    opened: list[Pattern]
    problem: Problem
    rows: Indices
    """[classes of ``problem``]: the classes of the whole problem."""
    prices: Floats
    """[classes of ``problem``]: proved ones."""
    identity: tuple[bytes, bytes]
    units: float = _UNITS

    @classmethod
    def of(cls, problem: Problem, market: Worth, opened: list[Pattern]) -> ContentsTrial:
        counts = np.zeros_like(problem.counts)
        for one in opened:
            counts[one.classes] += one.counts
        part, rows = problem.without_empty(counts), np.flatnonzero(counts)
        there = np.array(sorted(one.offer for one in opened), dtype=np.intp)
        return cls(opened, part, rows, market.pods[rows], (counts.tobytes(), there.tobytes()))

    def solve(self, effort: Effort) -> list[Pattern] | None:
        """Machines for the same pods; None when nothing is found."""
        known = [p._replace(classes=np.searchsorted(self.rows, p.classes)) for p in self.opened]
        part = Effort(_UNITS)
        found = cheapest_contents(self.problem, self.prices, known, part)
        effort.used += part.used
        if not found:
            return None
        sized = right_sized(self.problem, found)
        return [
            one._replace(classes=self.rows[one.classes], copies=1)
            for one in sized
            for _ in range(one.copies)
        ]
