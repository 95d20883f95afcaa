"""What instances have cost: seconds from the launch to the order to end, times the price of their pool.

EC2 bills from ``running`` on and at least a minute; the few seconds of ``pending`` are counted here, so that the bill
follows from the times that EC2 shows: the launch time, and the end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from local.aws.catalogue.prices import PriceBook
from local.aws.ec2.instances import Instance

COSTING = frozenset({"pending", "running"})
RESERVED = "reserved"
"""The capacity type of an instance in a reservation, which is paid for elsewhere."""
MOST_ENDED = 100_000
"""Instances that ended; the oldest are forgotten."""
HOUR = 3600.0


class Pool(NamedTuple):
    """What the price depends on."""

    instance_type: str
    zone: str
    capacity_type: str


def pool_of(instance: Instance) -> Pool:
    """The pool of an instance."""
    where = RESERVED if instance.capacity_reservation_id else instance.lifecycle
    return Pool(instance.instance_type, instance.zone, where)


class _Span(NamedTuple):
    pool: Pool
    begin: float
    end: float


class Line(NamedTuple):
    """A pool's part of the bill."""

    pool: Pool
    instances: int
    seconds: float
    dollars: float


@dataclass
class Bill:
    """Times are seconds since the epoch."""

    prices: PriceBook
    _running: dict[str, tuple[Pool, float]] = field(default_factory=dict)
    _ended: deque[_Span] = field(default_factory=lambda: deque(maxlen=MOST_ENDED))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, instance_id: str, pool: Pool, state: str, at: float) -> None:
        """An instance entered a state."""
        with self._lock:
            if state in COSTING:
                self._running.setdefault(instance_id, (pool, at))
            elif instance_id in self._running:
                self._ended.append(_Span(*self._running.pop(instance_id), at))

    def lines(self, begin: float, end: float) -> list[Line]:
        """What was paid for from ``begin`` to ``end``, by pool, in the order of their names."""
        seconds: dict[Pool, list[float]] = {}
        for pool, first, last in self._spans(end):
            if (length := min(last, end) - max(first, begin)) > 0:
                seconds.setdefault(pool, []).append(length)
        return [
            Line(pool, len(found), sum(found), sum(found) * self._price(pool) / HOUR)
            for pool, found in sorted(seconds.items())
        ]

    def clear(self) -> None:
        """Forget every instance."""
        with self._lock:
            self._running.clear()
            self._ended.clear()

    def _spans(self, end: float) -> Iterator[_Span]:
        with self._lock:
            spans = [*self._ended, *(_Span(pool, at, end) for pool, at in self._running.values())]
        return iter(spans)

    def _price(self, pool: Pool) -> float:
        return 0.0 if pool.capacity_type == RESERVED else self.prices.price(*pool)
