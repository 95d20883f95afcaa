"""How fast CreateFleet is called (F17, F18), in the test's own time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.launch.pacing import (
    BUDGET_WINDOW_SECONDS,
    CALLS_PER_MACHINE,
    FLOOR_PER_SECOND,
    QUEUE_FULL_SECONDS,
    CallBudget,
    CallQueue,
    Pace,
)
from services.launcher.launch.saga import RETRY_SECONDS
from tests.support.clock.fake import FakeClock
from tests.support.clock.leaping import LoopClock, run_leaping

CEILING = 10.0


def pace(ceiling: float = CEILING) -> Pace:
    return Pace(lambda: ceiling)


def test_calls_are_spaced_evenly() -> None:
    """F17: no burst that would be refused as a whole."""
    steady = pace()
    assert steady.wait(0.0) == 0.0
    steady.take(0.0)
    assert steady.wait(0.04) == pytest.approx(0.06)
    assert steady.wait(0.1) == 0.0


def test_a_throttled_call_takes_the_rate_down_at_once() -> None:
    """F17: from ten a second to one, then to the half, never below the floor."""
    one, rates = pace(), []
    for second in range(0, 600, 60):
        one.throttled(one.take(float(second)), second + 0.1)
        rates.append(one.rate_per_second)
    assert rates[:3] == [1.0, 0.5, 0.25]
    assert rates[-1] == FLOOR_PER_SECOND


def test_one_throttling_counts_once() -> None:
    """F17: calls that were on their way when the rate fell say nothing new."""
    one = pace()
    sent = [one.take(at) for at in (0.0, 0.1, 0.2)]
    assert [one.throttled(at, 0.3) for at in sent] == [True, False, False]
    assert one.rate_per_second == 1.0


def test_the_rate_follows_the_setting() -> None:
    """OPS-04: settings change while the service runs."""
    ceiling = [5.0]
    one = Pace(lambda: ceiling[0])
    ceiling[0] = 1.0
    one.take(0.0)
    assert one.rate_per_second == 1.0


@given(st.lists(st.sampled_from(["succeeded", "throttled", "late"]), max_size=200))
def test_the_rate_stays_between_floor_and_ceiling(answers: list[str]) -> None:
    """F17: AIMD, whatever EC2 answers."""
    one, now = pace(), 0.0
    for answer in answers:
        now += one.wait(now)
        before, sent = one.rate_per_second, one.take(now)
        if answer == "succeeded":
            one.succeeded()
            assert one.rate_per_second >= before
        else:
            one.throttled(sent if answer == "throttled" else -1.0, now)
            assert one.rate_per_second <= before
        assert FLOOR_PER_SECOND <= one.rate_per_second <= CEILING


@dataclass
class Ec2:
    """Refuses every call of a window, and answers the others; each answer takes ``latency`` seconds."""

    begins: float
    ends: float
    latency: float
    clock: LoopClock = field(default_factory=LoopClock)
    calls: list[tuple[float, int]] = field(default_factory=list)
    """(when, who)"""

    async def create_fleet(self, who: int) -> bool:
        """False: throttled."""
        at = self.clock.monotonic()
        self.calls.append((at, who))
        await asyncio.sleep(self.latency)
        return not self.begins <= at < self.ends


async def launched(who: int, ec2: Ec2, queue: CallQueue, budget: CallBudget) -> float:
    """One record's life as the launcher leads it: budget, turn, call, and again later; when it was answered."""
    while True:
        if wait := budget.wait([str(who)]):
            await asyncio.sleep(wait)
        elif (sent := await queue.wait()) is None:
            await asyncio.sleep(QUEUE_FULL_SECONDS)
        else:
            budget.spend([str(who)])
            if await ec2.create_fleet(who):
                queue.pace.succeeded()
                return queue.clock.monotonic()
            queue.pace.throttled(sent, queue.clock.monotonic())
            await asyncio.sleep(max(RETRY_SECONDS, 1.0 / queue.pace.rate_per_second))


@pytest.mark.parametrize("calls", [1, 2, 40, 200])
@pytest.mark.parametrize("latency", [0.02, 0.3, 2.0])
@pytest.mark.parametrize("begins", [0.0, 3.0])
def test_a_throttling_window_of_43_seconds(calls: int, latency: float, begins: float) -> None:
    """F17, F18: 2,000 pending pods in so many different calls; EC2 throttles for 43 s, then answers again.

    At most one call a second inside the window, all are through a minute after it, and nobody was called for a fourth
    time in a minute.
    """
    ec2 = Ec2(begins, begins + 43.0, latency)

    async def play() -> float:
        queue = CallQueue(pace(), ec2.clock)
        budget = CallBudget(ec2.clock)
        return max(await asyncio.gather(*(launched(n, ec2, queue, budget) for n in range(calls))))

    finished = run_leaping(play())
    inside = [at for at, _ in ec2.calls if ec2.begins <= at < ec2.ends]
    # Before the first refusal arrives nobody can know: those few calls are on their way.
    known = [at for at in inside if at > inside[0] + latency]
    assert all(later - earlier >= 0.999 for earlier, later in itertools.pairwise(known))
    assert len(known) <= 43
    assert finished <= ec2.ends + 60
    by_caller = {who: [at for at, one in ec2.calls if one == who] for _, who in ec2.calls}
    for times in by_caller.values():
        fourth = zip(times, times[CALLS_PER_MACHINE:], strict=False)
        assert all(later - earlier >= BUDGET_WINDOW_SECONDS for earlier, later in fourth)


async def test_calls_go_in_order_and_follow_a_fallen_rate() -> None:
    """F17: who waits already waits for the new rate."""
    clock, went = FakeClock(seconds=0.0), []

    async def sleep(seconds: float) -> None:
        clock.advance(seconds)
        await asyncio.sleep(0)

    queue = CallQueue(pace(), clock, sleep)

    async def caller(name: str) -> None:
        sent = await queue.wait()
        assert sent is not None
        went.append((name, sent))
        if name == "a":
            queue.pace.throttled(sent, sent)

    await asyncio.gather(*(caller(name) for name in "abc"))
    assert [name for name, _ in went] == ["a", "b", "c"]
    assert [sent for _, sent in went] == pytest.approx([0.0, 1.0, 2.0])


async def test_a_queue_that_is_too_long_is_not_joined() -> None:
    """Messages have a time limit: better to come again than to be cut off while waiting."""
    clock, gate = FakeClock(seconds=0.0), asyncio.Event()

    async def sleep(seconds: float) -> None:
        await gate.wait()
        clock.advance(seconds)

    queue = CallQueue(pace(0.2), clock, sleep)
    assert await queue.wait() == 0.0
    ended = asyncio.gather(*(queue.wait() for _ in range(20)))
    await asyncio.sleep(0)
    gate.set()
    refused = [one is None for one in await ended]
    assert refused == [False] * 12 + [True] * 8


def test_three_calls_a_minute_for_one_machine() -> None:
    """F18: and not a fourth, also when it is called together with others."""
    clock = FakeClock(seconds=0.0)
    budget = CallBudget(clock)
    for _ in range(CALLS_PER_MACHINE):
        assert budget.wait(["a"]) == 0.0
        budget.spend(["a"])
        clock.advance(10)
    assert budget.wait(["b"]) == 0.0
    assert budget.wait(["a", "b"]) == pytest.approx(BUDGET_WINDOW_SECONDS - 30)
    clock.advance(BUDGET_WINDOW_SECONDS - 30)
    assert budget.wait(["a"]) == 0.0


@given(st.lists(st.floats(0, 90), max_size=60))
def test_no_minute_has_more_than_three_calls(pauses: list[float]) -> None:
    """F18: whenever somebody asks."""
    clock = FakeClock(seconds=0.0)
    budget, went = CallBudget(clock), []
    for pause in pauses:
        clock.advance(pause)
        if not budget.wait(["a"]):
            budget.spend(["a"])
            went.append(clock.monotonic())
    gaps = zip(went, went[CALLS_PER_MACHINE:], strict=False)
    assert all(later - earlier >= BUDGET_WINDOW_SECONDS for earlier, later in gaps)
