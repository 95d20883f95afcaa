"""Sets of a pool's instance types as bits of an integer, so that an intersection is one AND.

A planned machine loses types with each pod that it takes (SCH-35), and most machines of a plan go through the same few
sets. Equal sets are one object, and the values derived from it are computed once.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from shared.solver.encode import LARGEST, Amounts, Indices, Mask


@dataclass(slots=True, eq=False)
class TypeSet:
    """Some types of one pool; equal sets are the same object."""

    bits: int
    """Bit i stands for row i of the type table."""
    mask: Mask
    """[types]: the same set as booleans."""
    largest_amounts: Amounts
    """[resources]: the largest amount among these types."""
    largest: tuple[int, ...]
    """``largest_amounts`` as Python integers."""

    @property
    def rows(self) -> Indices:
        """The same set as row numbers, ascending."""
        return self.mask.nonzero()[0]

    def __len__(self) -> int:
        return self.bits.bit_count()


class TypeSets:
    """All sets of one pool's types that this plan has used."""

    def __init__(self, columns: Amounts) -> None:
        """``columns``: [resources, types], what pods may use of each type."""
        self._columns = columns
        self._levels = [_Levels(amounts) for amounts in columns]
        self._found: dict[int, TypeSet] = {}

    def of(self, mask: Mask) -> TypeSet:
        """The set of a mask over all types."""
        return self._set(_bits(mask))

    def of_rows(self, rows: Indices) -> TypeSet:
        """The set of these rows of the type table."""
        mask = np.zeros(self._columns.shape[1], dtype=np.bool_)
        mask[rows] = True
        return self.of(mask)

    def intersection(self, one: TypeSet, other: TypeSet) -> TypeSet:
        """The types that are in both."""
        return self._set(one.bits & other.bits)

    def large_enough(self, types: TypeSet, content: tuple[int, ...]) -> TypeSet:
        """The types of the set that hold these amounts; the same object when all do."""
        bits = types.bits
        for levels, amount in zip(self._levels, content, strict=True):
            level = bisect_left(levels.amounts, amount)
            bits &= levels.holding[level] or levels.hold(level)
        return types if bits == types.bits else self._set(bits)

    def _set(self, bits: int) -> TypeSet:
        found = self._found.get(bits)
        if found is None:
            mask = _mask(bits, self._columns.shape[1])
            largest_amounts = self._columns.compress(mask, axis=1).max(axis=1, initial=-LARGEST)
            found = self._found[bits] = TypeSet(
                bits, mask, largest_amounts, tuple(largest_amounts.tolist())
            )
        return found


class _Levels:
    """One resource. The set of types that hold an amount is cached per distinct amount of the types."""

    __slots__ = ("_column", "amounts", "holding")

    def __init__(self, column: Amounts) -> None:
        """``column``: [types]."""
        self._column = column
        # Not np.unique, which loads numpy.ma: a command of half a second would wait for it.
        self.amounts: list[int] = sorted(set(column.tolist()))
        """The distinct amounts, ascending."""
        self.holding: list[int] = [0] * (len(self.amounts) + 1)
        """Per level, the bits of the types that have at least its amount; 0 where they are not known yet, and for the
        level above all amounts."""

    def hold(self, level: int) -> int:
        """Finds the bits of a level."""
        if level < len(self.amounts):
            self.holding[level] = _bits(self._column >= self.amounts[level])
        return self.holding[level]


def _bits(mask: Mask) -> int:
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def _mask(bits: int, count: int) -> Mask:
    raw = np.frombuffer(bits.to_bytes((count + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(raw, count=count, bitorder="little").view(np.bool_)
