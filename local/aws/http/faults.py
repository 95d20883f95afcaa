"""Faults that people order: which calls fail, when, and how their answers look.

``mode`` ``before`` answers without doing anything; ``after`` does the work and then spoils the
answer, which is how a lost answer looks to a client; ``slow`` does the work and answers truthfully,
only late. Status 0 closes the connection without an answer. The pseudo-action ``KMSDecrypt`` makes
the next instances end at once (LCH-67).

What may go wrong: two orders match one call. The older one decides, and only it is used up.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase
from random import Random
from typing import Any, Literal

from shared.concurrency.clock import Clock

ACTION_FAULT_LIMIT = 100
"""Most waiting orders per action."""
ORDER_LIMIT = 1_000
"""Most waiting orders in all."""

DROPPED = 0
"""Status that means: close the connection."""

Mode = Literal["before", "after", "slow"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What the spoiled answer says, and how many seconds it is held back."""

    code: str
    message: str
    status: int
    mode: Mode
    delay_seconds: float = 0.0
    body: str | None = None
    """The whole answer, instead of an error of AWS: what a proxy would write."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Which of the matching calls meet the fault. Every given limit holds at the same time.

    ``calls_per_second`` lets that many calls through (a bucket of ``burst`` tokens) and spoils the
    rest; ``percent`` spoils a share of the calls, drawn from ``seed``.
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
        """A pseudo-action has no service and is met by its own name only."""
        if service is None or ":" not in self.pattern:
            return self.pattern == action or (
                service is not None and fnmatchcase(action, self.pattern)
            )
        return fnmatchcase(f"{service}:{action}", self.pattern)

    def over(self, now: float) -> bool:
        """Whether no later call can meet it."""
        return self.left == 0 or (self._ends is not None and now >= self._ends)

    def meets(self, now: float) -> bool:
        """Whether this call meets the fault; asking uses it up."""
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
        """For people: what waits, for how long, how often it was met."""
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
        """Calls of ``pattern`` meet ``fault``: an action, ``sqs:*``, ``Describe*``, ``*``.

        Raises OverflowError when too many orders wait.
        """
        now = self._clock.monotonic()
        with self._lock:
            self._orders = [one for one in self._orders if not one.over(now)]
            same = sum(one.pattern == pattern for one in self._orders)
            if same >= ACTION_FAULT_LIMIT or len(self._orders) >= ORDER_LIMIT:
                raise OverflowError(
                    f"{same} faults wait for {pattern} and {len(self._orders)} in all; "
                    f"the limits are {ACTION_FAULT_LIMIT} and {ORDER_LIMIT}"
                )
            self._orders.append(_Order(pattern, fault, occurrence, now))

    def take(self, action: str, service: str | None = None) -> Fault | None:
        """The fault that this call meets, used up by asking. No ``service``: a pseudo-action."""
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
        """Wait, but no longer than until all faults are cancelled."""
        if seconds > 0:
            self._cancelled.wait(seconds)

    def waiting(self) -> list[dict[str, Any]]:
        """Every order that can still be met, oldest first."""
        now = self._clock.monotonic()
        with self._lock:
            return [one.described(now) for one in self._orders if not one.over(now)]

    def clear(self) -> None:
        """Cancel every order and let held answers go."""
        with self._lock:
            self._orders.clear()
            self._cancelled.set()
            self._cancelled = threading.Event()
