"""Open machines in the order in which they are tried: fewest pods first, then oldest (SCH-32)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from heapq import merge
from itertools import groupby, islice

_NEAR = 8
NOWHERE = -1
"""Number of the zone of a machine that may still be in several."""


class _ByPods:
    """Rows of machines, sorted, by number of pods."""

    __slots__ = ("counts", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, list[int]] = {}
        self.counts: list[int] = []
        """The keys of ``rows``, ascending; none has an empty list."""

    def add(self, row: int, pods: int) -> None:
        there = self.rows.get(pods)
        if there is None:
            self.rows[pods] = [row]
            insort(self.counts, pods)
        else:
            insort(there, row)

    def move(self, row: int, before: int, pods: int) -> None:
        """``add`` and ``remove`` in one, for the usual case: the first row takes pods and joins others."""
        there, then = self.rows[before], self.rows.get(pods)
        if then is None or before == pods or len(there) == 1 or there[0] != row:
            self.remove(row, before)
            self.add(row, pods)
            return
        del there[0]
        if then[-1] < row:
            then.append(row)
        else:
            insort(then, row)

    def remove(self, row: int, pods: int) -> None:
        there = self.rows[pods]
        if len(there) == 1:
            del self.rows[pods]
            del self.counts[bisect_left(self.counts, pods)]
        elif there[0] == row:  # the usual case: the first one takes the pod
            del there[0]
        else:
            del there[bisect_left(there, row)]

    def __iter__(self) -> Iterator[int]:
        for pods in self.counts:
            yield from self.rows[pods]


def _merged(parts: list[_ByPods]) -> Iterator[int]:
    """The rows of all parts in order."""
    for pods, _ in groupby(merge(*(part.counts for part in parts))):
        yield from merge(*(part.rows[pods] for part in parts if pods in part.rows))


class MachineOrder:
    """All machines, and those of each zone once somebody asks for them without some zones."""

    __slots__ = ("_all", "_zone", "_zones", "pods")

    def __init__(self) -> None:
        self._all = _ByPods()
        self._zone: list[int] = []
        self._zones: dict[int, _ByPods] | None = None
        self.pods: list[int] = []
        """[rows]."""

    def append(self) -> None:
        """Adds a machine without pods, in the next row."""
        row = len(self.pods)
        self.pods.append(0)
        self._zone.append(NOWHERE)
        self._all.add(row, 0)
        if self._zones is not None:
            self._in(NOWHERE).add(row, 0)

    def move(self, row: int, zone: int, pods: int) -> None:
        """A machine's number of pods or its zone changed."""
        before, there = self.pods[row], self._zone[row]
        self._all.move(row, before, pods)
        if self._zones is not None:
            if there == zone:
                self._zones[zone].move(row, before, pods)
            else:
                self._zones[there].remove(row, before)
                self._in(zone).add(row, pods)
        self.pods[row], self._zone[row] = pods, zone

    def _in(self, zone: int) -> _ByPods:
        if self._zones is None:
            self._zones = {}
            for row, (at, pods) in enumerate(zip(self._zone, self.pods, strict=True)):
                self._in(at).add(row, pods)
        found = self._zones.get(zone)
        if found is None:
            found = self._zones[zone] = _ByPods()
        return found

    def outside(self, zones: Collection[int]) -> Iterator[int]:
        """The rows of machines that are not in these zones, in order; the first few may come twice."""
        if not zones:
            return iter(self._all)
        self._in(NOWHERE)
        assert self._zones is not None
        left = [rows for zone, rows in self._zones.items() if zone not in zones and rows.counts]
        if len(left) == 1:
            return iter(left[0])
        return self._several(zones, left)

    def _several(self, zones: Collection[int], left: list[_ByPods]) -> Iterator[int]:
        """The rows of ``left``. The first ones are found without merging, which most callers never need."""
        of = self._zone
        for row in islice(self._all, _NEAR):
            if of[row] not in zones:
                yield row
        yield from _merged(left)
