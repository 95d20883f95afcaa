"""Calls that come close together are one call (LCH-54, LCH-55)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.cloud.client.batching import Batcher, one_by_one
from shared.errors import DovetailError, NotFound, Throttled

Refused = set[int]


class Work:
    """Doubles numbers and keeps what came together."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []

    async def __call__(self, items: list[int]) -> Sequence[int]:
        self.batches.append(items)
        return [2 * item for item in items]


def batcher(work: Work, *, idle: float = 0.01, most: int = 1000) -> Batcher[int, int]:
    return Batcher(work, idle=idle, longest=1.0, most=most)


async def test_everybody_gets_their_own_answer_from_one_call() -> None:
    """LCH-54: equal requests in one call."""
    work = Work()
    asked = batcher(work)
    assert await asyncio.gather(*(asked.submit(n) for n in range(5))) == [0, 2, 4, 6, 8]
    assert work.batches == [[0, 1, 2, 3, 4]]


async def test_a_full_batch_does_not_wait() -> None:
    """LCH-54: up to 1000; here two, with a wait that would outlast the test."""
    work = Work()
    asked = batcher(work, idle=1000.0, most=2)
    assert await asyncio.gather(*(asked.submit(n) for n in range(4))) == [0, 2, 4, 6]
    assert work.batches == [[0, 1], [2, 3]]


async def test_items_that_keep_coming_are_not_held_up_for_ever() -> None:
    """LCH-54: the first one waits no longer than ``longest``, however lively it is."""
    work = Work()
    asked: Batcher[int, int] = Batcher(work, idle=1000.0, longest=0.01, most=1000)
    assert await asked.submit(1) == 2


async def test_while_the_work_is_busy_items_are_collected() -> None:
    """LCH-54: a second piece of work would only wait for the first."""
    work, free = Work(), asyncio.Event()
    asked: Batcher[int, int] = Batcher(
        work, idle=0.001, longest=0.002, most=1000, busy=lambda: not free.is_set()
    )
    first = [asked.put(n) for n in range(3)]
    await asyncio.sleep(0.01)
    last = asked.put(3)
    assert work.batches == []
    free.set()
    assert await asyncio.gather(*first, last) == [0, 2, 4, 6]
    assert work.batches == [[0, 1, 2, 3]]


async def test_a_full_batch_waits_for_nobody() -> None:
    """LCH-54: one call takes no more."""
    work = Work()
    asked: Batcher[int, int] = Batcher(work, idle=1000.0, longest=1000.0, most=2, busy=lambda: True)
    assert [*await asyncio.gather(asked.submit(1), asked.submit(2))] == [2, 4]


async def test_what_comes_after_a_batch_is_the_next_batch() -> None:
    work = Work()
    asked = batcher(work)
    assert await asked.submit(1) == 2
    assert await asked.submit(2) == 4
    assert work.batches == [[1], [2]]


async def test_an_error_reaches_everybody_who_waits() -> None:
    async def fail(items: list[int]) -> Sequence[int]:
        raise Throttled("slower, please")

    asked: Batcher[int, int] = Batcher(fail, idle=0.001, longest=1.0, most=10)
    ended = await asyncio.gather(asked.submit(1), asked.submit(2), return_exceptions=True)
    assert [type(one) for one in ended] == [Throttled, Throttled]


async def test_who_stops_waiting_takes_nobody_along() -> None:
    """A consumer's time limit cancels one caller: the call goes on for the others."""
    going, gate = asyncio.Event(), asyncio.Event()

    async def slow(items: list[int]) -> Sequence[int]:
        going.set()
        await gate.wait()
        return items

    asked: Batcher[int, int] = Batcher(slow, idle=0.001, longest=1.0, most=2)
    impatient, patient = asked.put(1), asked.put(2)
    await going.wait()
    impatient.cancel()
    gate.set()
    assert await patient == 2


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20), st.sets(st.integers(0, 9)))
def test_one_bad_item_fails_nobody_else(items: list[int], bad: Refused) -> None:
    """LCH-55: a batch that is refused is repeated one by one."""

    async def strict(asked: list[int]) -> Sequence[int]:
        for item in asked:
            if item in bad:
                raise NotFound(f"no {item}")
        return asked

    async def play() -> Sequence[int | BaseException]:
        return await one_by_one(items, strict)

    if len(items) == 1 and items[0] in bad:
        with pytest.raises(NotFound):
            asyncio.run(play())
        return
    found = asyncio.run(play())
    assert [isinstance(one, DovetailError) for one in found] == [item in bad for item in items]
    assert [one for one in found if one not in bad and isinstance(one, int)] == [
        item for item in items if item not in bad
    ]


async def test_a_throttled_batch_is_not_made_five_hundred_calls() -> None:
    """F17: one by one would be the opposite of what EC2 asked for."""
    calls = []

    async def throttled(asked: list[int]) -> Sequence[int]:
        calls.append(asked)
        raise Throttled("slower, please")

    with pytest.raises(Throttled):
        await one_by_one([1, 2, 3], throttled)
    assert calls == [[1, 2, 3]]
