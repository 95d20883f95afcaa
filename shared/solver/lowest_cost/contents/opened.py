"""Some machines of a packing, opened: the problem of their pods alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shared.solver.encode import Indices
from shared.solver.lowest_cost.problem import Pattern, Problem


@dataclass(frozen=True, eq=False)
class Opened:
    """``machines``: as the whole problem numbers classes; ``offers``: of each, sorted."""

    machines: list[Pattern]
    offers: Indices
    problem: Problem
    """Of these pods, with the classes that have some."""
    rows: Indices
    """[classes of ``problem``]: the classes of the whole problem."""

    @classmethod
    def of(cls, whole: Problem, machines: list[Pattern]) -> Opened:
        """One copy of each of these machines."""
        counts = np.zeros_like(whole.counts)
        for one in machines:
            counts[one.classes] += one.counts
        offers = np.array(sorted(one.offer for one in machines), dtype=np.intp)
        return cls(machines, offers, whole.without_empty(counts), np.flatnonzero(counts))

    @property
    def identity(self) -> tuple[bytes, bytes, bytes]:
        """Equal for the same pods in machines of the same offerings."""
        return self.rows.tobytes(), self.problem.counts.tobytes(), self.offers.tobytes()

    def known(self) -> list[Pattern]:
        """The machines, as ``problem`` numbers classes."""
        return [p._replace(classes=np.searchsorted(self.rows, p.classes)) for p in self.machines]

    def named(self, found: list[Pattern]) -> list[Pattern]:
        """Machines of ``problem``, as the whole problem numbers classes."""
        return [one._replace(classes=self.rows[one.classes]) for one in found]
