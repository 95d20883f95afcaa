"""A bounded number of works at once."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.concurrency.parallel import in_parallel


@given(st.integers(0, 30), st.integers(1, 8))
def test_never_more_than_allowed_run_at_once_and_results_keep_their_order(
    count: int, most: int
) -> None:
    running = [0, 0]

    async def work(number: int) -> int:
        running[0] += 1
        running[1] = max(running)
        await asyncio.sleep(0)
        running[0] -= 1
        return number

    results = asyncio.run(in_parallel(map(work, range(count)), most=most))
    assert results == list(range(count))
    assert running[1] <= most


async def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        ended.append(number)
        if number in (1, 3):
            raise ValueError(f"number {number}")

    with pytest.raises(ValueError, match="number 1"):
        await in_parallel(map(work, range(5)), most=2)
    assert ended == [0, 1, 2, 3, 4]


async def test_a_cancellation_ends_those_that_have_not_begun(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """Python warns of a coroutine that nobody awaited. Other tests' leftovers may be collected here, and warn too."""
    works = [asyncio.Event().wait() for _ in range(5)]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await in_parallel(works, most=2)
    assert [inspect.getcoroutinestate(work) for work in works] == [inspect.CORO_CLOSED] * 5
    assert [str(one.message) for one in recwarn.list if one.category is RuntimeWarning] == []
