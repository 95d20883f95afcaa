"""How full Redis is, as the alert reads it."""

from __future__ import annotations

import random

from services.watcher.metrics.redis_memory import measure_memory
from shared.concurrency.clock import SystemClock
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.bus.connection import call
from tests.support.metrics.pages import Scraped
from tests.support.network.status_server import free_port
from tests.support.redis.fixture import redis_server, redis_url

__all__ = ["redis_server", "redis_url"]
USED, LIMIT = "dovetail_redis_memory_bytes", "dovetail_redis_memory_limit_bytes"


def bus_at(url: str) -> Bus:
    return Bus(url, "memory", clock=SystemClock(), random=random.Random(1))


async def test_use_and_limit_are_those_of_redis(redis_url: str) -> None:
    metrics, bus = Metrics("watcher"), bus_at(redis_url)
    await call(bus.redis, "limit", "CONFIG", "SET", "maxmemory", "123mb")
    try:
        await measure_memory(bus, metrics)
    finally:
        await call(bus.redis, "free", "CONFIG", "SET", "maxmemory", "0")
        await bus.close()
    scraped = Scraped(metrics.text())
    assert scraped.value(LIMIT) == 123 * 1024 * 1024
    assert 100_000 < (scraped.value(USED) or 0) < 123 * 1024 * 1024


async def test_a_redis_that_does_not_say_it_is_no_fault() -> None:
    """A managed one may refuse INFO; here none answers at all."""
    metrics, bus = Metrics("watcher"), bus_at(f"redis://127.0.0.1:{free_port()}/0")
    await measure_memory(bus, metrics)
    await bus.close()
    assert Scraped(metrics.text()).value(USED) == 0
