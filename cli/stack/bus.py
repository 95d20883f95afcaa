"""The streams of the installation that a command addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus


@asynccontextmanager
async def connected_bus(redis_url: str, cluster: str) -> AsyncIterator[Bus]:
    """A bus for the duration of one command. Raises ConfigurationError for an unreadable URL or cluster name."""
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=Random())
    try:
        yield bus
    finally:
        await bus.close()
