"""Few machines of a packing as a problem of their own, whose contents are searched for anew.

Contents that are good for all pods suit the last machines of a packing badly: what is left for these has prices of its
own. For few machines both the search for contents and the program that chooses among them are small.
"""

from __future__ import annotations

from dataclasses import dataclass

from shared.solver.lowest_cost.bound.dual import Worth
from shared.solver.lowest_cost.contents.opened import Opened
from shared.solver.lowest_cost.contents.whole import cheapest_contents
from shared.solver.lowest_cost.fill import Effort, right_sized
from shared.solver.lowest_cost.problem import Floats, Pattern

_UNITS = 100.0
"""Of the search for contents; the program takes about as much."""


@dataclass(frozen=True, eq=False)
class ContentsTrial:
    """``Trial`` of an exchange. ``prices``: [classes of the opened problem], proved ones."""

    opened: Opened
    prices: Floats
    units: float = _UNITS

    @classmethod
    def of(cls, opened: Opened, market: Worth) -> ContentsTrial:
        return cls(opened, market.pods[opened.rows])

    def solve(self, effort: Effort) -> list[Pattern] | None:
        """Machines for the same pods; None when nothing is found."""
        problem, part = self.opened.problem, Effort(_UNITS)
        found = cheapest_contents(problem, self.prices, self.opened.known(), part)
        effort.used += part.used
        if not found:
            return None
        sized = right_sized(problem, found)
        return [one._replace(copies=1) for one in sized for _ in range(one.copies)]
