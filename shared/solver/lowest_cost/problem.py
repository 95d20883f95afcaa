"""The packing problem as arrays: classes of pods, offerings of machines, and which class may use which offering.

Amounts are whole numbers below 2**53 in floats, so comparisons are exact. Every result is checked again in integers
when the machines are built.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from shared.solver.encode import Indices, Mask

Floats: TypeAlias = npt.NDArray[np.float64]
Counts: TypeAlias = npt.NDArray[np.int64]

ANY_ZONE = -1


@dataclass(slots=True, eq=False)
class Offers:
    """Offerings, one row each: a size at a price. ``capacity``: the amounts that pods may use."""

    types: Indices
    zones: Indices
    """Index of the zone, or ANY_ZONE: EC2 chooses at launch."""
    kinds: Indices
    """Index of the capacity type."""
    capacity: Floats
    """[offers, resources]."""
    price: Floats
    """Micro-USD per hour, with the price per node."""
    flexible: Mask
    """Enough instance types could replace it."""

    def __len__(self) -> int:
        return len(self.types)

    def only(self, chosen: Mask | Indices) -> Offers:
        """Only these rows."""
        return Offers(*(column[chosen] for column in self.columns()))

    def columns(self) -> tuple[np.ndarray, ...]:
        """All fields, in order."""
        return tuple(getattr(self, field.name) for field in fields(self))


@dataclass(slots=True, eq=False)
class Problem:
    """Numbers and sizes of pods, sizes and prices of offerings, and which pods may use which offering."""

    requests: Floats
    """[classes, resources]."""
    counts: Counts
    groups: Indices
    """[classes]: number of the host group; -1 without one."""
    slots: Counts
    """[groups]: the most pods of a group on one machine."""
    capacity: Floats
    price: Floats
    may: Mask
    """[classes, offers]: rules allow the offering, sizes aside."""
    fits: Mask
    """[classes, offers]: rules allow the offering and one pod fits."""

    def with_offers(self, chosen: Indices) -> Problem:
        """The problem with only these offerings, renumbered."""
        return replace(
            self,
            capacity=self.capacity[chosen],
            price=self.price[chosen],
            may=self.may[:, chosen],
            fits=self.fits[:, chosen],
        )

    def without_empty(self, counts: Counts) -> Problem:
        """The problem with only the classes that have pods in ``counts``."""
        at = np.flatnonzero(counts > 0)
        return replace(
            self,
            requests=self.requests[at],
            counts=counts[at],
            groups=self.groups[at],
            may=self.may[at],
            fits=self.fits[at],
        )


class Pattern(NamedTuple):
    """``copies`` equal machines, each with ``counts`` pods of ``classes``."""

    offer: int
    classes: Indices
    counts: Counts
    copies: int


def dense(problem: Problem, pattern: Pattern) -> Counts:
    """[classes]: the pods of one machine."""
    found = np.zeros(len(problem.counts), dtype=np.int64)
    found[pattern.classes] = pattern.counts
    return found


def rows_as_bytes(matrix: npt.NDArray[Any]) -> list[bytes]:
    """The bytes of each row, as keys of dictionaries."""
    width = matrix.shape[1] * matrix.itemsize
    if not width:
        return [b""] * len(matrix)
    joined = np.ascontiguousarray(matrix).view(np.dtype((np.void, width)))
    return [bytes(row) for row in joined.ravel().tolist()]


def distinct_rows(matrix: npt.NDArray[np.bool_ | np.uint8]) -> tuple[Indices, Indices]:
    """(index of the first row of each distinct value, sorted by bytes; number of the distinct value of each row).

    A dictionary is used because numpy.unique sorts whole rows, which takes seconds for long rows.
    """
    raw = rows_as_bytes(matrix)
    first: dict[bytes, int] = {}
    for at, row in enumerate(raw):
        first.setdefault(row, at)
    order = sorted(first)
    number = {row: i for i, row in enumerate(order)}
    firsts = np.array([first[row] for row in order], dtype=np.intp)
    return firsts, np.array([number[row] for row in raw], dtype=np.intp)


def cost_of(patterns: list[Pattern], price: Floats) -> float:
    """The price of all machines, in micro-USD per hour."""
    return float(sum(price[p.offer] * p.copies for p in patterns))


def rank(patterns: list[Pattern], price: Floats) -> tuple[float, int]:
    """(cost, number of machines); lower is better."""
    return cost_of(patterns, price), sum(p.copies for p in patterns)
