"""The fast, approximate half of global consolidation: which candidates could be removed together.

Drained: candidates whose pods fit on the remaining nodes, in the order of price per disruption cost; the fullest nodes
take pods first. Replaced: candidates whose pods cost less on existing or new nodes than their machines cost now; the
set is the prefix, by waste per disruption cost, that saves most after the moves are paid.

Amounts are integers and ties go by name, so equal input gives equal results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.global_consolidation.picture import NO_ROW, ClusterArrays
from shared.solver.encode import LARGEST, Amounts, Indices, Mask
from shared.solver.lowest_cost.problem import Floats

PACKING_LOSS_PERCENT = 4
"""New machines are never filled completely, so pods cost about this much more on them than their worth."""


class Move(NamedTuple):
    """A candidate that could be replaced."""

    at: int
    saving: int
    """Micro-USD per hour, without the cost of its moves."""


class Selection(NamedTuple):
    """Indices of candidates, in the order in which they were chosen."""

    drained: tuple[int, ...]
    replaced: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Search:
    """The state of the search: free resources, and the nodes that are still there."""

    arrays: ClusterArrays
    churn: Churn
    budget: dict[str, int]
    """Pool key -> how many more of its machines may be disrupted."""
    may_buy: tuple[bool, ...]
    """[candidates]: may be replaced by a new machine."""
    _room: Amounts = field(init=False)
    """[resources, nodes], free amounts; nodes in the order in which they take pods, the fullest first."""
    _there: Amounts = field(init=False)
    """[classes, nodes]"""
    _may: Mask = field(init=False)
    """[classes, nodes]"""
    _zone: Indices = field(init=False)
    _at: Indices = field(init=False)
    """[candidates]: its node, or NO_ROW."""
    _open: Mask = field(init=False)
    _received: Mask = field(init=False)
    _cost: Floats = field(init=False)
    """[candidates]: disruption cost."""
    _rank: Indices = field(init=False)
    """[classes]: position by size; 0 for the largest pods."""

    def __post_init__(self) -> None:
        arrays = self.arrays
        order = self._filled_best_first()
        position = np.empty(len(order), dtype=np.intp)
        position[order] = np.arange(len(order))
        self._cost = np.array([c.cost for c in arrays.candidates], dtype=np.float64)
        self._at = np.full(len(arrays.at), NO_ROW, dtype=np.intp)
        known = arrays.at != NO_ROW
        self._at[known] = position[arrays.at[known]]
        self._room = np.ascontiguousarray(arrays.room[order].T)
        self._there = np.ascontiguousarray(arrays.there[order].T)
        self._may = arrays.may[:, order] & np.asarray((self._room >= 0).all(axis=0))
        self._zone = arrays.node_zone[order]
        self._open = np.ones(len(order), dtype=np.bool_)
        self._received = np.zeros(len(order), dtype=np.bool_)
        share = arrays.requests / np.maximum(arrays.requests.max(axis=0, initial=1), 1)
        self._rank = np.argsort(np.argsort(-share.max(axis=1, initial=0), kind="stable"))

    def _filled_best_first(self) -> Indices:
        """Order of nodes by waste. Nodes that are not candidates come first: they stay, so using them costs nothing."""
        arrays = self.arrays
        waste = np.full(len(arrays.names), -1.0)
        known = arrays.at != NO_ROW
        waste[arrays.at[known]] = (arrays.excess / np.maximum(arrays.price, 1))[known]
        return np.lexsort((np.array(arrays.names), waste))

    def run(self) -> Selection:
        """Finds both sets; the second one uses the free resources and budgets that the first one leaves."""
        drained = self._drain()
        return Selection(tuple(drained), self._better_part(self._replace(set(drained))))

    def _better_part(self, moves: list[Move]) -> tuple[int, ...]:
        """The moves that save at least the average per disruption cost.

        The others wait for the next pass: with the resources that this command frees, they may save more or need not
        move.
        """
        costs = [self.arrays.candidates[move.at].cost for move in moves]
        saving, cost = sum(move.saving for move in moves), sum(costs)
        return tuple(
            move.at
            for move, own in zip(moves, costs, strict=True)
            if move.saving * cost >= saving * own
        )

    def _drain(self) -> list[int]:
        chosen = []
        for at in self._by_savings_ratio():
            if not self._may_go(at) or self._saves(at) <= 0:
                continue
            if self._place(at, partly=False) is not None:
                self._leave(at)
                chosen.append(at)
        return chosen

    def _by_savings_ratio(self) -> list[int]:
        """Candidates by price per disruption cost, highest first."""
        names = np.array([c.name for c in self.arrays.candidates])
        return [int(at) for at in np.lexsort((names, -(self.arrays.price / self._cost)))]

    def _saves(self, at: int) -> int:
        return int(self.arrays.price[at]) - self.churn.required_saving(int(self.arrays.pods[at]))

    def _may_go(self, at: int) -> bool:
        row = int(self._at[at])
        taken = row != NO_ROW and bool(self._received[row])
        return not taken and self._left(at) > 0

    def _left(self, at: int) -> int:
        return self.budget.get(self.arrays.candidates[at].machine.pool_key, 0)

    def _leave(self, at: int) -> None:
        self.budget[self.arrays.candidates[at].machine.pool_key] -= 1
        if (row := int(self._at[at])) != NO_ROW:
            self._open[row] = False

    def _replace(self, gone: set[int]) -> list[Move]:
        """The prefix of the remaining candidates, by waste per disruption cost, with the largest gain; empty when no
        prefix has one."""
        chosen: list[Move] = []
        gain, best, length = 0, 0, 0
        for at in self._by_waste():
            if at in gone or not self._may_go(at):
                continue
            left = self._place(at, partly=True)
            self._leave(at)
            new = int(left @ self.arrays.worth) if left is not None else 0
            new = new * (100 + PACKING_LOSS_PERCENT) // 100
            chosen.append(Move(at, int(self.arrays.price[at]) - new))
            gain += self._saves(at) - new
            if gain > best:
                best, length = gain, len(chosen)
        return chosen[:length]

    def _by_waste(self) -> list[int]:
        arrays = self.arrays
        required_saving = np.array(
            [self.churn.required_saving(int(pods)) for pods in arrays.pods], dtype=np.int64
        )
        waste = arrays.excess - required_saving
        names = np.array([c.name for c in arrays.candidates])
        order = np.lexsort((names, -(waste / self._cost)))
        # Pods that fit no offering have worth 0, so their node would look wasteful although it cannot be replaced.
        priceless = np.asarray((arrays.load[:, arrays.worth == 0] > 0).any(axis=1))
        return [int(at) for at in order if waste[at] > 0 and not priceless[at] and self.may_buy[at]]

    def _place(self, at: int, *, partly: bool) -> Amounts | None:
        """Moves a candidate's pods to other nodes, large pods first. Returns [classes]: pods that do not fit.

        ``partly`` False: either all pods move, or none does and the result is None.
        """
        row = int(self._at[at])
        was_open = row != NO_ROW and bool(self._open[row])
        if was_open:
            self._open[row] = False
        left, done = self._fill_all(at, exact=not partly)
        if was_open:
            self._open[row] = True
        if left.any() and not partly:
            for one, rows, taken in done:
                self._put(one, rows, -taken)
            return None
        for _, rows, _ in done:
            self._received[rows] = True
        return left

    def _fill_all(
        self, at: int, *, exact: bool
    ) -> tuple[Amounts, list[tuple[int, Indices, Amounts]]]:
        """([classes]: pods that do not fit, (class, nodes, pods per node) of the others).

        ``exact``: stop at the first class that does not fit.
        """
        left: Amounts = self.arrays.load[at].copy()
        zone = int(self.arrays.zone[at])
        done: list[tuple[int, Indices, Amounts]] = []
        classes = np.flatnonzero(left)
        for one in classes[np.argsort(self._rank[classes])].tolist():
            rows, taken = self._fill(one, int(left[one]), zone, exact=exact)
            left[one] -= int(taken.sum())
            done.append((one, rows, taken))
            if exact and left[one]:
                break
        return left, done

    def _fill(self, one: int, count: int, zone: int, *, exact: bool) -> tuple[Indices, Amounts]:
        """Places up to ``count`` pods: (nodes, pods per node). ``exact``: all of them or none."""
        usable: Mask = self._open & self._may[one]
        if self.arrays.stays_in_zone[one]:
            usable &= self._zone == zone
        rows: Indices = usable.nonzero()[0]
        fits = self._fits(one, rows, count)
        ends = np.cumsum(fits)
        if len(ends) == 0 or (exact and ends[-1] < count):
            return rows[:0], fits[:0]
        taken = np.clip(count - (ends - fits), 0, fits)
        used = taken.nonzero()[0]
        rows, taken = rows[used], taken[used]
        self._put(one, rows, taken)
        return rows, taken

    def _fits(self, one: int, rows: Indices, count: int) -> Amounts:
        """[rows]: how many pods of a class each node could take, ``count`` at most."""
        arrays = self.arrays
        found = np.full(len(rows), count, dtype=np.int64)
        for column in arrays.requests[one].nonzero()[0]:
            room = self._room[column, rows] // arrays.requests[one, column]
            np.minimum(found, room, out=found)
        if arrays.most[one] < LARGEST:
            np.minimum(found, arrays.most[one] - self._there[one, rows], out=found)
        return np.maximum(found, 0)

    def _put(self, one: int, rows: Indices, taken: Amounts) -> None:
        self._room[:, rows] -= self.arrays.requests[one][:, None] * taken
        self._there[one, rows] += taken
