"""Real Redis, a writer and readers with short times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.concurrency.clock import SystemClock
from shared.redis.bus import connect
from shared.redis.bus.connection import key_prefix
from shared.redis.mirror import Change, MirrorReader, MirrorWriter
from tests.support.redis.fixture import cluster, redis_server, redis_url
from tests.support.waiting import wait_until

__all__ = ["cluster", "redis_server", "redis_url"]


Until = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]


@pytest.fixture
def prefix(cluster: str) -> str:
    return key_prefix(cluster)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    client = connect(redis_url)
    yield client
    await client.aclose()


@pytest.fixture
def writer(redis: Redis, prefix: str) -> MirrorWriter:
    return MirrorWriter(redis, prefix, "epoch-a")


@pytest.fixture
def reading(redis_url: str, prefix: str) -> Callable[..., Any]:
    """``async with reading(on_change=…) as reader:`` runs a reader."""

    @asynccontextmanager
    async def run(
        on_change: Callable[[Change], None] | None = None,
        kinds: set[str] | None = None,
        key: str = "",
    ) -> AsyncIterator[MirrorReader]:
        reader = MirrorReader(
            redis_url,
            prefix,
            clock=SystemClock(),
            on_change=on_change,
            kinds=kinds,
            key=key,
            block_milliseconds=20,
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reader.run(stop))
            try:
                yield reader
            finally:
                stop.set()

    return run


@pytest.fixture
def until() -> Until:
    """Wait for a state: ``await until(lambda: done)``."""
    return lambda condition: wait_until(condition, "the state that the test waits for")
