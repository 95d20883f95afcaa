"""How fast CreateFleet may be called: additive increase, multiplicative decrease (F17), and at most three calls a
minute for one Machine (F18).

EC2 refuses calls beyond a rate that it does not tell. Calls are spaced evenly, never in a burst; each success raises
the rate a little, a throttled call takes it to one call a second or to its half, whichever is less. Calls that were
on their way when the rate fell say nothing new when they are refused as well: one throttling counts once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from shared.clock import Clock

FLOOR_PER_SECOND = 0.2
STEP_PER_SECOND = 1.0
AFTER_THROTTLING_PER_SECOND = 1.0
LONGEST_QUEUE_SECONDS = 60.0
"""Half the time that a message may be handled."""
QUEUE_FULL_SECONDS = 10.0
"""How soon to come again."""
CALLS_PER_MACHINE = 3
WINDOW_SECONDS = 60.0
_SOON = 1e-6
"""Rounding of times must not make a wait of no length."""

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
        """EC2 answered, whatever it said: it was not too fast."""
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
    """Lets callers through one after the other, in the order they came."""

    pace: Pace
    clock: Clock
    sleep: Sleep = asyncio.sleep
    _door: asyncio.Lock = field(default_factory=asyncio.Lock)
    _queue: int = 0

    async def next(self) -> float | None:
        """Wait for a turn; returns when the call goes. The rate may change while one waits.

        None at once when the queue is too long to wait in: come again later.
        """
        if (self._queue + 1) / self.pace.rate_per_second > LONGEST_QUEUE_SECONDS:
            return None
        self._queue += 1
        try:
            async with self._door:
                while (wait := self.pace.wait(self.clock.monotonic())) > 0.0:
                    await self.sleep(wait)
                return self.pace.take(self.clock.monotonic())
        finally:
            self._queue -= 1


@dataclass
class CallBudget:
    """The last calls of each machine, for a minute."""

    clock: Clock
    _calls: dict[str, deque[float]] = field(default_factory=dict)

    def wait(self, uids: Iterable[str]) -> float:
        """Seconds until a call for all of these machines fits their budgets; 0.0 for now."""
        oldest = self.clock.monotonic() - WINDOW_SECONDS
        known = (self._calls[uid] for uid in uids if uid in self._calls)
        first = (calls[0] for calls in known if len(calls) >= CALLS_PER_MACHINE)
        return max((at - oldest for at in first if at > oldest), default=0.0)

    def spend(self, uids: Iterable[str]) -> None:
        """A call for these machines goes now."""
        now = self.clock.monotonic()
        oldest = now - WINDOW_SECONDS
        self._calls = {uid: calls for uid, calls in self._calls.items() if calls[-1] > oldest}
        for uid in uids:
            self._calls.setdefault(uid, deque(maxlen=CALLS_PER_MACHINE)).append(now)
