"""The packing problem as numbers: classes of pods, offerings of machines, and which may hold which.

Floats carry whole numbers below 2**53, so comparisons and divisions of amounts are exact; every
result is checked again in integers when the machines are built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shared.solver.encode import Indices, Mask

Floats: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]

ANY_ZONE = -1


@dataclass(slots=True, eq=False)
class Offers:
    """What can be bought, one row each: a size at a price. ``capacity`` is what pods may use."""

    types: Indices
    zones: Indices
    """Index of the zone, or ANY_ZONE: the launch chooses."""
    kinds: Indices
    """Index of the capacity type."""
    capacity: Floats
    """[offers, resources]."""
    price: Floats
    """Micro-USD per hour."""
    flexible: Mask
    """Enough instance types could take its place."""

    def __len__(self) -> int:
        return len(self.types)

    def only(self, chosen: Mask | Indices) -> Offers:
        """These rows."""
        return Offers(
            self.types[chosen],
            self.zones[chosen],
            self.kinds[chosen],
            self.capacity[chosen],
            self.price[chosen],
            self.flexible[chosen],
        )


@dataclass(slots=True, eq=False)
class Problem:
    """How many pods of which size go where. Rows of classes are in a fixed order."""

    requests: Floats
    """[classes, resources]."""
    counts: Counts
    groups: Indices
    """[classes]: the host group, -1 without."""
    slots: Counts
    """[groups]: how many pods of a group one machine may hold."""
    capacity: Floats
    price: Floats
    may: Mask
    """[classes, offers]: rules allow it, whatever the size."""
    fits: Mask
    """[classes, offers]: rules allow it and one pod fits."""

    def with_offers(self, chosen: Indices) -> Problem:
        """Only these offerings, numbered anew."""
        return Problem(
            self.requests,
            self.counts,
            self.groups,
            self.slots,
            self.capacity[chosen],
            self.price[chosen],
            self.may[:, chosen],
            self.fits[:, chosen],
        )

    def without_empty(self, counts: Counts) -> Problem:
        """The same offerings for the classes that still have pods, and how many."""
        at = np.flatnonzero(counts > 0)
        return Problem(
            self.requests[at],
            counts[at],
            self.groups[at],
            self.slots,
            self.capacity,
            self.price,
            self.may[at],
            self.fits[at],
        )


class Pattern(NamedTuple):
    """``copies`` equal machines, each with ``counts`` pods of ``classes``."""

    offer: int
    classes: Indices
    counts: Counts
    copies: int


def distinct_rows(matrix: npt.NDArray[np.bool_ | np.uint8]) -> tuple[Indices, Indices]:
    """The first row of each kind, kinds in the order of their bytes, and the kind of each row. Sorting whole rows, as
    numpy does, takes seconds where they are long."""
    raw = [row.tobytes() for row in matrix]
    first: dict[bytes, int] = {}
    for at, row in enumerate(raw):
        first.setdefault(row, at)
    order = sorted(first)
    number = {row: i for i, row in enumerate(order)}
    firsts = np.array([first[row] for row in order], dtype=np.intp)
    return firsts, np.array([number[row] for row in raw], dtype=np.intp)


def cost_of(patterns: list[Pattern], price: Floats) -> float:
    """Micro-USD per hour."""
    return float(sum(price[p.offer] * p.copies for p in patterns))


def rank(patterns: list[Pattern], price: Floats) -> tuple[float, int]:
    """The lower, the better: what it costs, then how many machines."""
    return cost_of(patterns, price), sum(p.copies for p in patterns)
