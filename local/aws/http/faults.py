"""Ordered faults: which calls fail, when, and with which answer.

``mode`` ``before`` answers without doing anything; ``after`` does the work and then replaces the answer, which looks to
a client like a lost answer; ``slow`` does the work and delays the true answer. Status 0 closes the connection without
an answer. The pseudo-action ``KMSDecrypt`` makes the next instances terminate at once (LCH-67).

When two orders match one call, the older one applies, and only that one is used up.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Literal

from shared.concurrency.clock import Clock

ACTION_FAULT_LIMIT = 100
"""Most pending orders per action."""
ORDER_LIMIT = 1_000
"""Most pending orders in all."""

DROPPED = 0
"""Status that means: close the connection."""

Mode = Literal["before", "after", "slow"]


@dataclass(frozen=True, slots=True)
class Fault:
    """The replacing answer, and the seconds by which it is delayed."""

    code: str
    message: str
    status: int
    mode: Mode
    delay_seconds: float = 0.0
    body: str | None = None
    """The whole answer, as a proxy would write it, instead of an AWS error."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Selects the matching calls that fail. Every given limit applies at the same time.

    ``calls_per_second`` lets that many calls succeed (a bucket of ``burst`` tokens) and fails the rest; ``percent``
    fails a share of the calls, drawn from ``seed``.
    """

    count: int | None = None
    skip: int = 0
    seconds: float | None = None
    calls_per_second: float | None = None
    burst: int = 1
    percent: float = 100.0
    seed: int = 0


class _Order:
    def __init__(self, pattern: str, fault: Fault, occurrence: Occurrence, now: float) -> None:
        self.pattern = pattern
        self.fault = fault
        self._occurrence = occurrence
        self._ends = None if occurrence.seconds is None else now + occurrence.seconds
        self._random = Random(occurrence.seed)
        self._skip = occurrence.skip
        self._tokens = float(occurrence.burst)
        self._refilled = now
        self.left = occurrence.count
        self.met = 0

    def matches(self, action: str, service: str | None) -> bool:
        """Whether the order names this call. A pseudo-action has no service and matches by its exact name only."""
        if service is None or ":" not in self.pattern:
            return self.pattern == action or (
                service is not None and fnmatchcase(action, self.pattern)
            )
        return fnmatchcase(f"{service}:{action}", self.pattern)

    def over(self, now: float) -> bool:
        """Whether no later call can fail by this order."""
        return self.left == 0 or (self._ends is not None and now >= self._ends)

    def meets(self, now: float) -> bool:
        """Whether this call fails. The check counts against the order's limits."""
        if self._skip > 0:
            self._skip -= 1
            return False
        if self._passes_bucket(now) or self._random.random() * 100 >= self._occurrence.percent:
            return False
        self.met += 1
        if self.left is not None:
            self.left -= 1
        return True

    def _passes_bucket(self, now: float) -> bool:
        rate = self._occurrence.calls_per_second
        if rate is None:
            return False
        refill = (now - self._refilled) * rate
        self._tokens = min(float(self._occurrence.burst), self._tokens + refill)
        self._refilled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def described(self, now: float) -> dict[str, Any]:
        """A readable form: what is pending, for how long, and how many calls failed."""
        return {
            "action": self.pattern,
            "code": self.fault.code,
            "status": self.fault.status,
            "mode": self.fault.mode,
            "delaySeconds": self.fault.delay_seconds,
            "callsLeft": self.left,
            "secondsLeft": None if self._ends is None else round(max(0.0, self._ends - now), 3),
            "callsPerSecond": self._occurrence.calls_per_second,
            "percent": self._occurrence.percent,
            "met": self.met,
        }


class Faults:
    """Orders in the order of their arrival. Safe to use from every request thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._orders: list[_Order] = []
        self._cancelled = threading.Event()

    def order(self, pattern: str, fault: Fault, occurrence: Occurrence) -> None:
        """Let calls of ``pattern`` fail with ``fault``. A pattern is an action, ``sqs:*``, ``Describe*`` or ``*``.

        Raises OverflowError when too many orders are pending.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._orders = [one for one in self._orders if not one.over(now)]
            same = sum(one.pattern == pattern for one in self._orders)
            if same >= ACTION_FAULT_LIMIT or len(self._orders) >= ORDER_LIMIT:
                raise OverflowError(
                    f"{same} faults are pending for {pattern} and {len(self._orders)} in all; "
                    f"the limits are {ACTION_FAULT_LIMIT} and {ORDER_LIMIT}"
                )
            self._orders.append(_Order(pattern, fault, occurrence, now))

    def take(self, action: str, service: str | None = None) -> Fault | None:
        """The fault of this call, or None. The check counts against the order's limits. No ``service``: a
        pseudo-action.
        """
        if not self._orders:
            return None
        now = self._clock.monotonic()
        with self._lock:
            self._orders = [one for one in self._orders if not one.over(now)]
            for one in self._orders:
                if one.matches(action, service) and one.meets(now):
                    return one.fault
        return None

    def hold(self, seconds: float) -> None:
        """Wait for ``seconds``, or until all faults are cancelled."""
        if seconds > 0:
            self._cancelled.wait(seconds)

    def waiting(self) -> list[dict[str, Any]]:
        """Every order that can still apply, oldest first."""
        now = self._clock.monotonic()
        with self._lock:
            return [one.described(now) for one in self._orders if not one.over(now)]

    def clear(self) -> None:
        """Cancel every order and release delayed answers."""
        with self._lock:
            self._orders.clear()
            self._cancelled.set()
            self._cancelled = threading.Event()
