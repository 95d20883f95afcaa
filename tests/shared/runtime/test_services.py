"""Loops are supervised: a failing one starts again and takes nobody down (F29, R8)."""

from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from shared.concurrency.clock import SystemClock
from shared.errors import Unavailable
from shared.metrics import Metrics
from shared.runtime import services as runtime
from shared.runtime.services import Loop, Service, periodic, run, supervise, until_stopped
from tests.support.clock.fake import FakeClock
from tests.support.waiting import wait_until

CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "BACKOFF_SECONDS", (0.01, 0.02))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("test")


def failures(metrics: Metrics, loop: str) -> float:
    value = metrics.registry.get_sample_value("dovetail_loop_failures_total", {"loop": loop})
    return value or 0.0


@pytest.mark.parametrize("error", [Unavailable("away", code="x"), ZeroDivisionError("1/0")])
async def test_a_failing_loop_starts_again_and_is_counted(
    metrics: Metrics, error: Exception
) -> None:
    runs = 0

    async def fail(_stop: asyncio.Event) -> None:
        nonlocal runs
        runs += 1
        raise error

    stop, loop = asyncio.Event(), Loop("bad", fail)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise(loop, stop, metrics, CLOCK))
        await wait_until(lambda: runs >= 3, "three starts")
        assert loop.error
        stop.set()
    assert failures(metrics, "bad") == runs


async def test_a_failing_loop_does_not_take_the_others_down(metrics: Metrics) -> None:
    """F29, by the whole runtime: SIGTERM ends it in order, and services are closed."""
    seen: list[str] = []

    async def fail(_stop: asyncio.Event) -> None:
        raise RuntimeError("bug")

    async def note() -> None:
        seen.append("beat")

    async def close() -> None:
        seen.append("closed")

    steady = periodic("steady", 0.01, note, clock=CLOCK, jitter=random.Random(1))
    service = Service("one", [Loop("bad", fail), steady], metrics, dict, close=close)
    server = Loop("server", until_stopped)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(run([service], server, clock=CLOCK))
        await wait_until(lambda: len(seen) > 5 and failures(metrics, "bad") > 2, "both go on")
        os.kill(os.getpid(), signal.SIGTERM)
    assert seen[-1] == "closed"


async def test_a_loop_that_hangs_is_cut_off_within_the_bound(
    metrics: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F29: the process is gone in time, whatever hangs."""
    monkeypatch.setattr(runtime, "STOP_SECONDS", 5.2)
    cancelled, started = asyncio.Event(), asyncio.Event()

    async def hang(_stop: asyncio.Event) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    service = Service("one", [Loop("hangs", hang)], metrics, dict)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(run([service], Loop("server", until_stopped), clock=CLOCK))
        await started.wait()
        os.kill(os.getpid(), signal.SIGTERM)
    assert cancelled.is_set()


async def test_a_cancelled_loop_is_not_started_again(metrics: Metrics) -> None:
    """Cancellation is never swallowed."""
    started = asyncio.Event()

    async def wait(_stop: asyncio.Event) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(supervise(Loop("x", wait), asyncio.Event(), metrics, CLOCK))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert failures(metrics, "x") == 0


@pytest.mark.parametrize("how", ["cancelled", "returns"])
async def test_a_loop_that_ends_makes_the_service_unready_whatever_it_says_of_its_progress(
    metrics: Metrics, how: str
) -> None:
    """R8: nothing runs it any more, so its progress is nobody's word."""
    begun, over = asyncio.Event(), asyncio.Event()

    async def end(_stop: asyncio.Event) -> None:
        begun.set()
        await over.wait()

    loop = Loop("ended", end, progress=CLOCK.monotonic)
    service = Service("one", [loop], metrics, dict)
    task = asyncio.ensure_future(supervise(loop, asyncio.Event(), metrics, CLOCK))
    await begun.wait()
    assert service.unready(CLOCK.monotonic()) == []
    over.set() if how == "returns" else task.cancel()
    await asyncio.wait([task])
    assert service.unready(CLOCK.monotonic()) == ["loop ended has ended"]


def test_before_its_first_progress_a_loop_counts_from_its_start(metrics: Metrics) -> None:
    """R8: a first turn that hangs is seen as any other."""
    young = Loop("young", until_stopped, late_seconds=10, progress=lambda: None, beat=100.0)
    service = Service("one", [young], metrics, dict)
    assert service.unready(105.0) == []
    assert service.unready(111.0) == ["loop young made no progress for 11 s"]


async def test_a_loop_whose_work_is_cancelled_by_others_starts_again(metrics: Metrics) -> None:
    """F29: only its own cancellation ends a loop."""
    runs = 0

    async def wait(_stop: asyncio.Event) -> None:
        nonlocal runs
        runs += 1
        awaited = asyncio.get_running_loop().create_future()
        awaited.cancel()
        await awaited

    stop, loop = asyncio.Event(), Loop("x", wait)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise(loop, stop, metrics, CLOCK))
        await wait_until(lambda: runs >= 3, "three starts")
        stop.set()
    assert failures(metrics, "x") == runs


async def test_a_periodic_loop_acts_at_once_and_beats() -> None:
    acts, clock = [], FakeClock(seconds=50.0)

    async def act() -> None:
        acts.append(clock.monotonic())

    loop = periodic("tick", 0.01, act, clock=clock, jitter=random.Random(1))
    loop.error = "of before"
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(loop.run(stop))
        await wait_until(lambda: len(acts) >= 3, "three acts")
        stop.set()
    assert loop.beat == 50.0
    assert loop.error == ""


def test_a_loop_without_progress_makes_the_service_unready(metrics: Metrics) -> None:
    """R8: late loops are named with their last error."""
    late = Loop("late", until_stopped, late_seconds=10, beat=100.0, error="queue gone")
    good = Loop("good", until_stopped, late_seconds=10, progress=lambda: 195.0)
    service = Service("one", [late, good], metrics, dict, missing=lambda: ["a mirror"])
    assert service.unready(105.0) == ["a mirror"]
    assert service.unready(200.0) == [
        "a mirror",
        "loop late made no progress for 100 s queue gone",
    ]


async def test_a_loop_that_failed_twice_in_a_row_makes_the_service_unready(
    metrics: Metrics,
) -> None:
    """Whatever it calls progress: each new start may look like some. A healthy minute ends it."""
    clock, runs = FakeClock(seconds=0.0), 0
    recovered, fail_again = asyncio.Event(), asyncio.Event()

    async def work(_stop: asyncio.Event) -> None:
        nonlocal runs
        runs += 1
        if runs <= 2:
            raise KeyError("creationTimestamp")
        recovered.set()
        await fail_again.wait()
        raise KeyError("once more")

    loop = Loop("watch pods", work, progress=clock.monotonic)
    service = Service("one", [loop], metrics, dict)
    stop, told = asyncio.Event(), "loop watch pods failed 2 times in a row: "
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise(loop, stop, metrics, clock))
        await recovered.wait()
        assert service.unready(clock.monotonic()) == [f"{told}KeyError('creationTimestamp')"]
        clock.advance(runtime.HEALTHY_SECONDS + 1)
        assert service.unready(clock.monotonic()) == []
        fail_again.set()
        await wait_until(lambda: loop.failures == 1, "the first failure of a new row")
        assert service.unready(clock.monotonic()) == []
        stop.set()


async def test_one_failure_is_forgiven_and_a_timed_loop_that_acts_again_is_ready(
    metrics: Metrics,
) -> None:
    """Redis away for a moment: the next whole turn proves that it works."""
    turns: list[str] = []

    async def act() -> None:
        turns.append("turn")
        if len(turns) in (1, 3, 4):
            raise Unavailable("Redis is away")

    loop = periodic("heartbeat", 0.01, act, clock=CLOCK, jitter=random.Random(1))
    service, stop = Service("one", [loop], metrics, dict), asyncio.Event()
    seen: set[tuple[str, ...]] = set()

    def look() -> bool:
        if turns:
            seen.add(tuple(service.unready(CLOCK.monotonic())))
        return len(turns) > 5

    async with asyncio.TaskGroup() as group:
        group.create_task(supervise(loop, stop, metrics, CLOCK))
        await wait_until(look, "it goes on", every=0.001)
        stop.set()
    assert seen == {(), ("loop heartbeat failed 2 times in a row: Redis is away",)}
    assert loop.failures == 0


async def test_starting_again_is_no_progress(metrics: Metrics) -> None:
    """A loop that only ever fails is late by the time of its first start."""
    clock = FakeClock(seconds=0.0)

    async def fail(_stop: asyncio.Event) -> None:
        clock.advance(50)
        raise Unavailable("away")

    stop, loop = asyncio.Event(), Loop("bad", fail)
    async with asyncio.TaskGroup() as group:
        group.create_task(supervise(loop, stop, metrics, clock))
        await wait_until(lambda: failures(metrics, "bad") >= 4, "four failures")
        stop.set()
    assert loop.beat == 0.0
