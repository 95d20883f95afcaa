"""The most that the content of a machine can be worth at given prices of pods, for many offerings in one table.

A table says for each amount of each resource, in steps, what the most valuable pods are worth that fit into it. Sizes
of pods are rounded down to steps, so a table never states too little; where all sizes are multiples of a step nothing
is lost. Offerings that the same pods may use and that are of similar size share a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Problem

_SIZE_RATIO = 4.5
"""Largest size of a table's offerings as a multiple of the smallest, by their first resource."""
_MOST_STEPS, _MOST_CELLS = 2400, 1_300_000
"""Steps of each resource, and cells of a table."""
_COLUMNS, _FEW_CELLS = 2, 200_000
"""Resources that are limits in a table, the scarcest ones. Further ones are while there are few cells."""
_MOST_LOSS = 0.02
"""A table that rounds away a larger share of the pods' sizes would say little."""
_PARTS = np.arange(1, 17)
"""A step is one of these parts of the size of a pod."""
_EQUAL_LOSS = 0.0005
_MOST_VALUE = 2**30
_CELLS_PER_UNIT = 400_000
_TABLE_UNITS = 0.5


class Valued(NamedTuple):
    """What tables say of some offerings."""

    rows: Indices
    """The offerings that a table was made for."""
    most: Floats
    """[rows]: no content is worth more."""
    contents: Counts
    """[rows, classes]: the content that is worth that, if the rounded sizes were the real ones."""


class _Item(NamedTuple):
    """Some pods of one class, and their size in steps."""

    which: int
    pods: int
    size: tuple[int, ...]


class Tables:
    """The tables of one problem. ``most``: [classes], pods of the class that one machine may hold."""

    def __init__(self, problem: Problem, offers: Indices, most: Counts) -> None:
        tables = [
            table
            for rows in _of_similar_size(problem, offers)
            for table in _divided(problem, offers, rows, most)
        ]
        self._tables = sorted(tables, key=lambda table: table.cells)
        items = float(np.ceil(np.log2(np.maximum(most, 1) + 1)).sum())
        self._units = [table.cells * items / _CELLS_PER_UNIT for table in self._tables]

    def values(
        self, prices: Floats, rows: Indices, wanted: Mask, most_units: float, effort: Effort
    ) -> Iterator[Valued]:
        """One table after the other, small ones first, as long as effort is left.

        ``prices``: [classes], whole numbers; ``rows``: the offerings to look at, ascending; ``wanted``: [rows,
        classes], others are in no content that matters; ``most_units``: of a table, larger ones are left out.
        """
        for table, units in zip(self._tables, self._units, strict=True):
            asked = np.isin(rows, table.rows)
            if asked.any() and effort.is_left and units <= most_units:
                any_wants: Mask = np.asarray(wanted[asked].any(axis=0), dtype=np.bool_)
                yield table.value(prices, rows[asked], any_wants, effort)


def _of_similar_size(problem: Problem, offers: Indices) -> list[Indices]:
    """Rows of offerings that the same classes may use, in groups of similar size."""
    markets: dict[bytes, list[int]] = {}
    for row in np.argsort(problem.capacity[offers, 0], kind="stable").tolist():
        markets.setdefault(problem.may[:, offers[row]].tobytes(), []).append(row)
    found: list[Indices] = []
    for rows in markets.values():
        size = np.maximum(problem.capacity[offers[rows], 0], 1.0)
        start = 0
        while start < len(rows):
            end = int(np.searchsorted(size, size[start] * _SIZE_RATIO, side="right"))
            found.append(np.sort(np.array(rows[start:end], dtype=np.intp)))
            start = end
    return found


def _divided(problem: Problem, offers: Indices, rows: Indices, most: Counts) -> list[_Table]:
    """Tables for these offerings: one if it says enough, else for parts of them. None for those that need too large
    ones."""
    table = _Table(problem, offers, rows, most)
    if table.is_useful:
        return [table]
    size = np.log2(np.maximum(problem.capacity[offers[rows]][:, table.asked], 1.0))
    if not size.size or not np.ptp(size, axis=0).any():
        return []
    by = size[:, int(np.ptp(size, axis=0).argmax())]
    is_small = by <= (by.min() + by.max()) / 2
    halves = (rows[is_small], rows[~is_small])
    return [table for half in halves for table in _divided(problem, offers, half, most)]


class _Table:
    """One table. ``rows``: of its offerings."""

    def __init__(self, problem: Problem, offers: Indices, rows: Indices, most: Counts) -> None:
        self.rows = rows
        capacity = problem.capacity[offers[rows]]
        usable = problem.fits[:, offers[rows]].any(axis=1) & (most > 0)
        self._chosen = np.flatnonzero(usable)
        requests, weights = problem.requests[usable], most[usable].astype(np.float64)
        columns, sizes = _steps(requests, weights, capacity)
        self.is_useful = bool(len(columns))
        self.asked = np.flatnonzero((requests > 0).any(axis=0))
        self._cells = (requests[:, columns] // sizes).astype(np.int64)
        self._room = (capacity[:, columns] // sizes).astype(np.int64)
        self._most = most[usable]
        self.cells = int(np.prod(self._room.max(axis=0) + 1))
        self._classes = len(problem.counts)

    def value(self, prices: Floats, rows: Indices, wanted: Mask, effort: Effort) -> Valued:
        """``rows``: some of the table's, ascending; ``wanted``: [classes]."""
        room = self._room[np.searchsorted(self.rows, rows)]
        top = room.max(axis=0)
        items = self._items(prices, wanted, top)
        total = sum(int(prices[one.which]) * one.pods for one in items)
        unit = max(1, -(-total // _MOST_VALUE))
        table = np.zeros(top + 1, dtype=np.int32)
        buffer = np.empty_like(table)
        taken = []
        for item in items:
            inside = table[tuple(slice(n, None) for n in item.size)]
            without = table[tuple(slice(0, n) for n in inside.shape)]
            with_it = buffer[tuple(slice(0, n) for n in inside.shape)]
            np.add(without, -(-int(prices[item.which]) * item.pods // unit), out=with_it)
            better = with_it > inside
            np.copyto(inside, with_it, where=better)
            taken.append(np.packbits(better))
        effort.used += _TABLE_UNITS + table.size * len(items) / _CELLS_PER_UNIT
        most = table[tuple(room.T)].astype(np.float64) * unit
        return Valued(rows, most, self._contents(items, taken, room, top))

    def _items(self, prices: Floats, wanted: Mask, top: Counts) -> list[_Item]:
        """Any number of pods of a class is a sum of some of its items."""
        found = []
        for at, which in enumerate(self._chosen.tolist()):
            if prices[which] <= 0 or not wanted[which]:
                continue
            cells = self._cells[at]
            fitting = top[cells > 0] // cells[cells > 0]
            left, pods = int(min(self._most[at], fitting.min(initial=self._most[at]))), 1
            while left > 0:
                now = min(pods, left)
                found.append(_Item(which, now, tuple((cells * now).tolist())))
                left, pods = left - now, pods * 2
        return found

    def _contents(
        self, items: list[_Item], taken: list[npt.NDArray[np.uint8]], room: Counts, top: Counts
    ) -> Counts:
        """[rows, classes]: what the table chose for each room."""
        found = np.zeros((len(room), self._classes), dtype=np.int64)
        left = room.copy()
        for item, bits in zip(reversed(items), reversed(taken), strict=True):
            place = left - np.array(item.size)
            inside = np.flatnonzero((place >= 0).all(axis=1))
            flat = np.ravel_multi_index(tuple(place[inside].T), tuple(top + 1 - item.size))
            hit = inside[(bits[flat >> 3] >> (7 - (flat & 7)) & 1) > 0]
            found[hit, item.which] += item.pods
            left[hit] = place[hit]
        return found


def _steps(requests: Floats, weights: Floats, capacity: Floats) -> tuple[Indices, Floats]:
    """(columns that are limits, and the step of each); none where a table would be too large or say little."""
    scarcity = weights @ requests / np.maximum(capacity.mean(axis=0), 1.0)
    asked = np.argsort(-scarcity, kind="stable")[: np.count_nonzero(scarcity)]
    found: dict[int, float] = {}
    cells = 1
    for column in asked.tolist():
        top = float(capacity[:, column].max())
        most = (_MOST_CELLS if len(found) < _COLUMNS else _FEW_CELLS) // cells - 1
        if most < 1:
            break
        step, loss = _step(requests[:, column], weights, top, min(_MOST_STEPS, most))
        if loss <= _MOST_LOSS:
            found[column] = step
            cells *= int(top // step) + 1
        elif len(found) < _COLUMNS:
            return np.zeros(0, dtype=np.intp), np.zeros(0)
    return np.array(list(found), dtype=np.intp), np.array(list(found.values()))


def _step(sizes: Floats, weights: Floats, top: float, limit: int) -> tuple[float, float]:
    """(the largest step by which little is lost, what is lost as a share of all sizes)."""
    parts = np.floor(np.unique(sizes[sizes > 0])[:, None] / _PARTS)
    steps = np.unique(np.append(parts, np.floor(top / limit) + 1))
    steps = steps[(steps > 0) & (top // np.maximum(steps, 1) <= limit)]
    loss = (sizes % steps[:, None]) @ weights / float(sizes @ weights)
    near = np.flatnonzero(loss <= loss.min() * 1.1 + _EQUAL_LOSS)
    return float(steps[near[-1]]), float(loss[near[-1]])
