"""Calls share few connections: whoever finds none free waits, and a waiter that gives up takes nothing with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.redis.bus.connection import call, connect

CONNECTIONS = 2
CALLS = 20


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = connect(redis_url, connections=CONNECTIONS)
    yield client
    await client.aclose()


async def own_echo(redis: Redis, number: int) -> bool:
    own = b"own %d" % number
    return bool(await call(redis, "echo", "ECHO", own) == own)


async def test_more_calls_than_connections_all_have_their_turn(redis: Redis) -> None:
    echoed = await asyncio.gather(*(own_echo(redis, number) for number in range(CALLS)))
    assert echoed == [True] * CALLS
    assert len(redis.connection_pool._available_connections) == CONNECTIONS


async def test_waiters_that_are_cancelled_leave_the_connections_to_others(
    redis: Redis, until: Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]
) -> None:
    pool: Any = redis.connection_pool
    blocked = [
        asyncio.create_task(call(redis, "wait", "BLPOP", f"nothing {number}", 0))
        for number in range(CONNECTIONS)
    ]
    waiters = [asyncio.create_task(own_echo(redis, number)) for number in range(CALLS)]
    await until(lambda: pool._waiting == CALLS)
    for task in (*waiters[::2], *blocked):
        task.cancel()
    await asyncio.wait([*waiters, *blocked])
    assert all(waiter.result() for waiter in waiters[1::2])
    assert await own_echo(redis, CALLS)
    assert pool._waiting == 0
