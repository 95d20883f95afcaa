"""The most that the content of a machine can be worth at given prices of pods: a search that never states too little.

Classes are decided one after the other, for all offerings at once. A state is the room that is left and the worth so
far. A state is dropped when prices of room prove that no content from there is worth more than the target. When there
are too many states, similar ones become one with the larger room and the larger worth of both, so the result can only
rise (a relaxed decision diagram).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shared.solver.encode import Indices, Mask
from shared.solver.lowest_cost.fill import Effort
from shared.solver.lowest_cost.problem import Counts, Floats, Problem

_MOST_CHOICES = 32
"""Numbers of pods that are tried per class and state; with more, neighbouring numbers count as one."""
_GRIDS = (1024, 96, 16, 4, 1)
"""Cells per resource in which states count as similar, the first that leaves few enough states."""
_MOST_COMPARED, _COUNTED = 4, 64
"""Amounts by which states are compared, and the number of their values below which each has a cell of its own."""
_CELLS_PER_STATE, _MOST_CELLS = 16, 1024
_FEW_STATES = 64
_LEVEL_UNITS, _STATE_UNITS = 0.2, 0.001


@dataclass(frozen=True, eq=False)
class RoomPrices:
    """Prices of a machine's room, and what they prove. Any prices of at least zero prove something."""

    room: Floats
    """[offers, resources]: of one unit."""
    slots: Floats
    """[offers, groups]: of one pod of the group."""
    most: Counts
    """[offers, classes]: pods of the class that a machine may hold."""
    surplus: Floats
    """[offers, classes]: what a pod is worth beyond the room that it takes."""
    ceiling: Floats
    """[offers]: no content is worth more."""

    def only(self, rows: Indices) -> RoomPrices:
        """Only these offerings."""
        return RoomPrices(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


class _States(NamedTuple):
    """[states]: row of the offering, room left, slots left in the current group, worth (once with the slots that are
    left at their prices: ``base``)."""

    row: Indices
    room: Floats
    slots: Counts
    base: Floats
    worth: Floats

    def only(self, chosen: Indices) -> _States:
        return _States(
            self.row[chosen],
            self.room[chosen],
            self.slots[chosen],
            self.base[chosen],
            self.worth[chosen],
        )


class Diagram:
    """One search over some offerings.

    ``prices``: [classes]; ``target``: [offers], worth below which nothing needs to be known; ``width``: most states;
    ``amounts``: how many columns of the problem are amounts, others follow from these.
    """

    def __init__(
        self,
        problem: Problem,
        offers: Indices,
        prices: Floats,
        proof: RoomPrices,
        target: Floats,
        width: int,
        amounts: int,
    ) -> None:
        self._problem = problem
        self._amounts = amounts
        self._is_exact = True
        self._capacity = problem.capacity[offers]
        self._prices = prices
        self._proof = proof
        self._target = target
        self._width = width
        # One pod of a class that costs more than the whole margin is in no content that matters.
        margin = proof.ceiling - target
        self._most = np.where(proof.surplus < -margin[:, None], 0, proof.most)
        self._shared = _has_shared_slots(problem)
        self._order = self._ordered()
        gain = self._most * np.maximum(proof.surplus, 0.0)
        by_level = np.take_along_axis(gain, self._order, axis=1)
        later = np.cumsum(by_level[:, ::-1], axis=1)[:, ::-1]
        self._later = np.concatenate([later[:, 1:], np.zeros((len(offers), 1))], axis=1)
        self._needed = self._needs()
        self._trail: list[tuple[Indices, Counts]] = []

    def run(self, effort: Effort, per_offer: int = 1) -> tuple[Floats, Indices, Counts]:
        """([offers]: no content is worth more; row of the offering of each content; [contents, classes]: the contents
        that may be worth most, ``per_offer`` of each offering).

        Without effort the prices of room are all that is known.
        """
        states = self._start()
        for level in range(self._order.shape[1]):
            if not len(states.row):
                break
            if not effort.is_left:
                return self._proof.ceiling, states.row[:0], np.zeros_like(self._most[:0])
            decided = self._decided(states, level)
            effort.used += _LEVEL_UNITS + _STATE_UNITS * len(decided[1])
            states = self._merged(*decided, level)
        most = self._target.copy()
        np.maximum.at(most, states.row, states.worth)
        return most, *self._contents(states, per_offer)

    def _start(self) -> _States:
        rows = np.arange(len(self._capacity))
        base = self._proof.slots @ self._problem.slots.astype(np.float64)
        return _States(
            rows, self._capacity.copy(), np.zeros(len(rows), np.int64), base, np.zeros(len(rows))
        )

    def _ordered(self) -> Indices:
        """[offers, levels]: the class that is decided at each level: first those whose number is nearly certain. The
        classes that share slots follow one another."""
        surplus = np.where(self._most > 0, np.abs(self._proof.surplus), -1.0)
        key = surplus.copy()
        groups = np.where(self._shared, self._problem.groups, -1)
        for group in np.unique(groups[groups >= 0]):
            members = groups == group
            key[:, members] = key[:, members].max(axis=1, keepdims=True)
        block = np.broadcast_to(groups, key.shape)
        order = np.lexsort((-surplus, block, -key), axis=1)
        depth = int((key >= 0).sum(axis=1).max(initial=0))
        return np.asarray(order[:, :depth], dtype=np.intp)

    def _needs(self) -> Floats:
        """[offers, levels, resources]: what all pods of the classes after a level ask for."""
        most = np.take_along_axis(self._most, self._order, axis=1)
        asked = most[:, :, None] * self._problem.requests[self._order]
        later = np.cumsum(asked[:, ::-1], axis=1)[:, ::-1]
        return np.concatenate([later[:, 1:], np.zeros_like(later[:, :1])], axis=1)

    def _decided(self, states: _States, level: int) -> tuple[_States, Indices, Counts]:
        """(states after the decision about one class, the state that each comes from, pods taken)."""
        row = states.row
        which = self._order[row, level]
        size = self._problem.requests[which]
        slots = self._slots(states, which, level)
        most = np.minimum(self._most[row, which], slots)
        fitting = np.where(size > 0, states.room / np.where(size > 0, size, 1.0), np.inf)
        highest = np.minimum(most, np.floor(fitting.min(axis=1)))
        surplus = self._proof.surplus[row, which]
        spare = self._ceiling(states, level - 1) - self._target[row]
        steps = spare / np.maximum(np.abs(surplus), 1e-30)
        highest = np.where(surplus < 0, np.minimum(highest, np.floor(steps)), highest)
        lowest = np.where(surplus > 0, np.ceil(self._most[row, which] - steps), 0.0)
        lowest = np.maximum(lowest, 0.0)
        if level == self._order.shape[1] - 1:
            lowest = np.maximum(lowest, highest)  # nothing comes after it that needs the room
        choices = np.where(spare > 0, highest - lowest + 1, 0.0)
        stride = np.maximum(np.ceil(choices / _MOST_CHOICES), 1.0)
        times = np.maximum(np.ceil(choices / stride), 0.0).astype(np.int64)
        parent = np.repeat(np.arange(len(row)), times)
        nth = np.arange(len(parent)) - np.repeat(np.cumsum(times) - times, times)
        taken = lowest[parent] + nth * stride[parent]
        counted = np.minimum(taken + stride[parent] - 1, highest[parent])
        price = self._prices[which[parent]]
        group = self._problem.groups[which]
        asked = np.zeros(len(row))
        if len(self._problem.slots):
            asked = np.where(group >= 0, self._proof.slots[row, group], 0.0)
        net = price - asked[parent]
        whole = taken.astype(np.int64)
        found = _States(
            row[parent],
            states.room[parent] - taken[:, None] * size[parent],
            slots[parent] - whole,
            states.base[parent] + np.maximum(net * taken, net * counted),
            states.worth[parent] + price * counted,
        )
        return found, parent, whole

    def _slots(self, states: _States, which: Indices, level: int) -> Counts:
        """[states]: slots left for the class that is decided."""
        unlimited = np.full(len(which), np.iinfo(np.int64).max // 2)
        if not self._shared.any():
            return unlimited
        group = self._problem.groups[which]
        fresh = self._problem.slots[np.maximum(group, 0)]
        if level:
            before = self._problem.groups[self._order[states.row, level - 1]]
            fresh = np.where(before == group, states.slots, fresh)
        return np.where(self._shared[which], fresh, unlimited)

    def _ceiling(self, states: _States, level: int) -> Floats:
        """[states]: no content that starts like this is worth more."""
        found = states.base + (states.room * self._proof.room[states.row]).sum(axis=1)
        if level < 0:
            first = self._most * np.maximum(self._proof.surplus, 0.0)
            return np.asarray(found + first.sum(axis=1)[states.row])
        return np.asarray(found + self._later[states.row, level])

    def _merged(self, states: _States, parent: Indices, taken: Counts, level: int) -> _States:
        # Room that nothing can use makes equal states look different.
        room = np.minimum(states.room, self._needed[states.row, level])
        states = states._replace(room=room)
        alive = np.flatnonzero(self._ceiling(states, level) > self._target[states.row])
        states, parent, taken = states.only(alive), parent[alive], taken[alive]
        if len(self._capacity) == 1 and self._is_exact:
            kept = _undominated(states, self._amounts)
            states, parent, taken = states.only(kept), parent[kept], taken[kept]
        for grid in _GRIDS:
            if len(states.row) <= self._width:
                break
            self._is_exact = False
            key = self._cells(states, grid)
            order = np.lexsort((states.base, key))
            key = key[order]
            starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
            # The path of the member that is worth most stands for all of them.
            last = order[np.append(starts[1:], len(order)) - 1]
            states = _States(
                states.row[last],
                np.maximum.reduceat(states.room[order], starts, axis=0),
                np.maximum.reduceat(states.slots[order], starts),
                states.base[last],
                np.maximum.reduceat(states.worth[order], starts),
            )
            parent, taken = parent[last], taken[last]
        self._trail.append((parent, taken))
        return states

    def _cells(self, states: _States, grid: int) -> Counts:
        """[states]: number of the cell; states of different offerings are in different cells."""
        found = states.row.astype(np.int64)
        size = np.maximum(self._capacity[states.row, : self._amounts], 1.0)
        room = states.room[:, : self._amounts]
        cells = np.minimum(np.floor(room / size * grid), grid).astype(np.int64)
        for column in cells.T:
            _, found = np.unique(found * (grid + 1) + column, return_inverse=True)
        return found.astype(np.int64)

    def _contents(self, states: _States, per_offer: int) -> tuple[Indices, Counts]:
        order = np.lexsort((-states.worth, states.row))
        row = states.row[order]
        rank = np.arange(len(row)) - np.searchsorted(row, row)
        at = order[rank < per_offer]
        rows = states.row[at]
        found = np.zeros((len(at), len(self._prices)), dtype=np.int64)
        for level in range(len(self._trail) - 1, -1, -1):
            parent, taken = self._trail[level]
            found[np.arange(len(at)), self._order[rows, level]] = taken[at]
            at = parent[at]
        return rows, found


def _undominated(states: _States, amounts: int) -> Indices:
    """The states of one offering without those beside which another has more room, and is worth as much.

    ``states``: of real contents, so that columns beyond the first ``amounts`` need no look. Rooms are compared by cells
    of a grid, so some of these stay. With more than four amounts that differ, all stay.
    """
    every = np.arange(len(states.row))
    if len(every) < _FEW_STATES:
        return every
    room = np.column_stack([states.room[:, :amounts], states.slots])
    least, span = room.min(axis=0), np.ptp(room, axis=0)
    columns = np.flatnonzero(span)
    if not len(columns):
        return every[[int(states.worth.argmax())]]
    if len(columns) > _MOST_COMPARED:
        return every
    room, span = room[:, columns] - least[columns], span[columns]
    counted = span < _COUNTED
    most = max(_CELLS_PER_STATE * len(every) / np.prod(span[counted] + 1), 1.0)
    grid = int(np.clip(most ** (1 / max(int((~counted).sum()), 1)), 2, _MOST_CELLS))
    cells = np.where(counted, room, np.minimum(np.floor(room / span * grid), grid - 1))
    index = tuple(cells.astype(np.int64).T)
    best = np.full(np.where(counted, span + 2, grid + 1).astype(np.int64), -np.inf)
    np.maximum.at(best, index, states.worth)
    for axis in range(len(columns)):
        best = np.flip(np.maximum.accumulate(np.flip(best, axis), axis=axis), axis)
    # In a cell of several amounts some have less room, so only those of further cells count.
    beside = best[tuple(at + (not one) for at, one in zip(index, counted, strict=True))]
    return np.flatnonzero(states.worth >= beside if counted.all() else states.worth > beside)


def _has_shared_slots(problem: Problem) -> Mask:
    """[classes]: another class is in the same host group."""
    if not len(problem.slots):
        return np.zeros(len(problem.counts), dtype=np.bool_)
    sizes = np.bincount(problem.groups[problem.groups >= 0], minlength=len(problem.slots))
    found: Mask = (problem.groups >= 0) & (sizes[np.maximum(problem.groups, 0)] > 1)
    return found
