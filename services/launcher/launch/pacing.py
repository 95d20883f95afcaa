"""How fast CreateFleet may be called: additive increase, multiplicative decrease (F17), and at most three calls a
minute for one Machine (F18).

EC2 refuses calls beyond a rate that it does not publish. Calls are spaced evenly, never in a burst; each success raises
the rate a little, a throttled call takes it to one call a second or to its half, whichever is less. Calls that were
on their way when the rate fell say nothing new when they are refused as well: one throttling counts once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from shared.concurrency.clock import Clock

FLOOR_PER_SECOND = 0.2
STEP_PER_SECOND = 1.0
AFTER_THROTTLING_PER_SECOND = 1.0
LONGEST_QUEUE_SECONDS = 60.0
"""Half the time that a message may be handled."""
QUEUE_FULL_SECONDS = 10.0
"""How soon a call that found the queue full comes again."""
CALLS_PER_MACHINE = 3
BUDGET_WINDOW_SECONDS = 60.0
_SOON = 1e-6
"""Shorter waits count as none: rounding must not make a loop of empty waits."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass
class Pace:
    """The rate and the next free moment; pure, times are monotonic seconds."""

    ceiling_per_second: Callable[[], float]
    """Read anew each time, for it is a setting."""
    rate_per_second: float = float("inf")
    _next: float = 0.0
    _reduced: float = float("-inf")

    def __post_init__(self) -> None:
        self.rate_per_second = self._bounded(self.rate_per_second)

    def wait(self, now: float) -> float:
        """Seconds until the next call may go."""
        left = self._next - now
        return left if left > _SOON else 0.0

    def take(self, now: float) -> float:
        """A call goes now. Returns ``now``, for ``throttled``."""
        self.rate_per_second = self._bounded(self.rate_per_second)
        self._next = now + 1.0 / self.rate_per_second
        return now

    def succeeded(self) -> None:
        """EC2 answered, whatever the answer: the call was not too fast."""
        self.rate_per_second = self._bounded(self.rate_per_second + STEP_PER_SECOND)

    def throttled(self, sent: float, now: float) -> bool:
        """EC2 refused a call that went at ``sent``. True when the rate falls for it."""
        if sent < self._reduced:
            return False
        slower = min(self.rate_per_second / 2, AFTER_THROTTLING_PER_SECOND)
        self.rate_per_second = self._bounded(slower)
        self._reduced = now
        self._next = now + 1.0 / self.rate_per_second
        return True

    def _bounded(self, rate: float) -> float:
        return max(FLOOR_PER_SECOND, min(rate, self.ceiling_per_second()))


@dataclass
class CallQueue:
    """Lets calls through one after the other, in the order in which they came."""

    pace: Pace
    clock: Clock
    sleep: Sleep = asyncio.sleep
    _first_in_line: asyncio.Lock = field(default_factory=asyncio.Lock)
    _length: int = 0

    @property
    def rate_per_second(self) -> float:
        return self.pace.rate_per_second

    async def wait(self) -> float | None:
        """Wait until the call may go; returns that moment in monotonic seconds. The rate may change meanwhile.

        None at once when the queue is too long to wait in: come again later.
        """
        if (self._length + 1) / self.pace.rate_per_second > LONGEST_QUEUE_SECONDS:
            return None
        self._length += 1
        try:
            async with self._first_in_line:
                while (left := self.pace.wait(self.clock.monotonic())) > 0.0:
                    await self.sleep(left)
                return self.pace.take(self.clock.monotonic())
        finally:
            self._length -= 1

    def succeeded(self) -> None:
        """EC2 took a call: the rate rises a little."""
        self.pace.succeeded()

    def throttled(self, sent: float) -> bool:
        """EC2 refused the call that went at ``sent`` for its rate. True when the rate falls for it."""
        return self.pace.throttled(sent, self.clock.monotonic())


@dataclass
class CallBudget:
    """The last calls of each machine, for a minute."""

    clock: Clock
    _calls: dict[str, deque[float]] = field(default_factory=dict)

    def wait(self, uids: Iterable[str]) -> float:
        """Seconds until a call for all of these machines fits their budgets; 0.0 for now."""
        oldest = self.clock.monotonic() - BUDGET_WINDOW_SECONDS
        known = (self._calls[uid] for uid in uids if uid in self._calls)
        first = (calls[0] for calls in known if len(calls) >= CALLS_PER_MACHINE)
        return max((at - oldest for at in first if at > oldest), default=0.0)

    def spend(self, uids: Iterable[str]) -> None:
        """A call for these machines goes now."""
        now = self.clock.monotonic()
        oldest = now - BUDGET_WINDOW_SECONDS
        self._calls = {uid: calls for uid, calls in self._calls.items() if calls[-1] > oldest}
        for uid in uids:
            self._calls.setdefault(uid, deque(maxlen=CALLS_PER_MACHINE)).append(now)
