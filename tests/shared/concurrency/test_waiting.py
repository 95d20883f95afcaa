"""Waits that the order to stop ends."""

from __future__ import annotations

import asyncio

import pytest

from shared.concurrency.waiting import pause, pause_unless, run_until, woken_by


async def test_a_pause_ends_with_the_order_to_stop() -> None:
    stop = asyncio.Event()
    assert await pause(stop, 0.001) is True
    stop.set()
    assert await asyncio.wait_for(pause(stop, 3600), 60) is False


async def test_work_is_cancelled_by_the_order_to_stop() -> None:
    stop, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            stop.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    await asyncio.wait_for(run_until(stop, work()), 60)
    assert cancelled.is_set()


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await run_until(asyncio.Event(), work())


async def test_a_pause_ends_early_when_it_is_woken_and_the_wake_is_used_up() -> None:
    woken = asyncio.Event()
    woken.set()
    await asyncio.wait_for(pause_unless(woken, 60.0), 5.0)
    assert not woken.is_set()


async def test_a_pause_that_nobody_wakes_ends_on_stop() -> None:
    woken, stop = asyncio.Event(), asyncio.Event()
    async with woken_by(stop, woken):
        stop.set()
        await asyncio.wait_for(pause_unless(woken, 60.0), 5.0)


async def test_a_pause_that_nobody_wakes_ends_after_its_time() -> None:
    await asyncio.wait_for(pause_unless(asyncio.Event(), 0.01), 5.0)


async def test_an_error_between_two_pauses_is_raised_as_it_is() -> None:
    with pytest.raises(ValueError, match="broken"):
        async with woken_by(asyncio.Event(), asyncio.Event()):
            raise ValueError("broken")
