"""The streams of the installation that a command addresses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from shared.concurrency.clock import SystemClock
from shared.errors import Unreachable
from shared.redis.bus import Bus, shown


@asynccontextmanager
async def connected_bus(redis_url: str, cluster: str) -> AsyncIterator[Bus]:
    """A bus for the duration of one command.

    Raises ConfigurationError for an unreadable URL or cluster name, and Unreachable, with the setting and the next
    step, when Redis does not answer within the block.
    """
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=Random())
    try:
        yield bus
    except Unreachable as error:
        text = (
            f"{error.message.rstrip('.')}; start Redis at {shown(redis_url)}, or correct REDIS_URL"
        )
        raise Unreachable(text, **error.context) from error
    finally:
        await bus.close()
