"""Real Redis, and a bus with short times."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus, Consumer, ConsumerSettings, Envelope
from shared.redis.bus.attempt import AttemptLimits
from tests.support.redis.fixture import cluster, redis_server, redis_url
from tests.support.waiting import wait_until

__all__ = ["cluster", "redis_server", "redis_url"]

QUICK = ConsumerSettings(
    attempts=AttemptLimits(),
    block_milliseconds=50,
    min_idle_seconds=0.3,
    reap_seconds=0.05,
    heartbeat_seconds=0.1,
    move_seconds=0.02,
    trim_seconds=0.1,
    finish_seconds=0.2,
)
"""Settings of a consumer that notices everything within a second."""

Until = Callable[[Callable[[], Any]], Coroutine[Any, Any, Any]]


@pytest.fixture
def quick() -> ConsumerSettings:
    return QUICK


@pytest.fixture
async def bus(redis_url: str, cluster: str) -> AsyncIterator[Bus]:
    made = Bus(redis_url, cluster, clock=SystemClock(), random=random.Random(1))
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def until() -> Until:
    """Wait for a state: ``await until(lambda: done)``."""
    return lambda condition: wait_until(condition, "the state that the test waits for")


@pytest.fixture
def message() -> Callable[..., Envelope]:
    """An envelope about object ``key``."""

    def make(key: str, *, id: str | None = None, body: bytes = b"{}", version: int = 1) -> Envelope:
        return Envelope(
            id=id or f"m-{key}", type="LaunchMachine", key=key, body=body, at=1.0, version=version
        )

    return make


@pytest.fixture
def running() -> Callable[[Consumer], Any]:
    """``async with running(consumer):`` runs it, and stops it as SIGTERM would."""

    @asynccontextmanager
    async def run(*consumers: Consumer) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for consumer in consumers:
                tasks.create_task(consumer.run(stop))
            try:
                yield
            finally:
                stop.set()

    return run
