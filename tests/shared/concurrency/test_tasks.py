"""A task goes on after a group of tasks failed as if nobody had cancelled it."""

from __future__ import annotations

import asyncio

import pytest

from shared.concurrency.tasks import TaskGroup
from shared.concurrency.waiting import pause


async def fail_after(begun: asyncio.Event) -> None:
    await begun.wait()
    raise ValueError("failed")


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@pytest.mark.parametrize("where", ["in the body", "while it is waited for"])
async def test_a_pause_after_a_failed_group_is_a_pause(where: str) -> None:
    """Seed 60142 of mixed: the launcher's catalogue was never read again after one throttled call."""
    begun = asyncio.Event()

    async def work() -> None:
        async with TaskGroup() as group:
            group.create_task(fail_after(begun))
            begun.set()
            if where == "in the body":
                await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup, match="TaskGroup"):
        await work()
    assert cancelling() == 0
    assert await pause(asyncio.Event(), 0.001), "the whole time passed"


async def test_groups_in_groups_leave_nothing_behind() -> None:
    begun = asyncio.Event()

    async def work() -> None:
        async with TaskGroup(), TaskGroup() as inner:
            inner.create_task(fail_after(begun))
            begun.set()

    with pytest.raises(ExceptionGroup):
        await work()
    assert cancelling() == 0


async def test_a_cancellation_from_outside_still_ends_the_task() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        async with TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            started.set()

    task = asyncio.ensure_future(wait())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1
