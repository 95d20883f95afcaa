"""A call that is cancelled anywhere on its way leaves no reply behind for the next call of its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from shared.redis.bus.connection import call, connect

STEPS = 12
"""More turns of the event loop than a call takes."""
ROUNDS = 4


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    """One connection only: each call follows the cancelled one on it."""
    client = connect(redis_url, connections=1)
    yield client
    await client.aclose()


async def cancelled_after(redis: Redis, steps: int) -> bool:
    """Cancel a call after some turns of the event loop, and say whether it was still under way.

    Its reply comes after the next call began: the pool itself discards a connection on which a reply is there already.
    """
    under_way = asyncio.create_task(call(redis, "wait", "BLPOP", "nothing", 0.02))
    for _ in range(steps):
        await asyncio.sleep(0)
    under_way.cancel()
    await asyncio.wait([under_way])
    return under_way.cancelled()


async def test_the_next_call_gets_its_own_reply(redis: Redis) -> None:
    interrupted = set()
    for number in range(STEPS * ROUNDS):
        steps = number % STEPS
        if await cancelled_after(redis, steps):
            interrupted.add(steps)
        own = b"own %d" % number
        assert await call(redis, "echo", "ECHO", own) == own
    assert len(interrupted) > 2, "the calls were over before they could be cancelled"
