"""Which events some service has written already: a key in Redis that runs out (EVT-03).

What may go wrong: Redis does not answer. The recorder then writes the event: two copies are better than none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from shared.errors import Unavailable
from shared.redis.bus.connection import ask

PATIENCE_SECONDS = 1.0
"""Events must not wait for a Redis that hangs."""


class SeenEverywhere:
    """A ``Seen`` of all services of one cluster. Keys are bounded by their time, and by the rate of each recorder."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}event:"

    async def first(self, key: str, seconds: float) -> bool:
        """Whether no service saw ``key`` in the last ``seconds``. Raises TransientError."""
        if seconds <= 0:
            return True
        milliseconds = max(1, int(seconds * 1000))
        words = ("SET", self._prefix + key, "1", "NX", "PX", milliseconds)
        return await self._ask("note an event", *words) is not None

    async def has(self, key: str) -> bool:
        """Whether a service saw ``key``, and its time is not over. Raises TransientError."""
        return bool(await self._ask("look for an event", "EXISTS", self._prefix + key))

    async def _ask(self, what: str, *words: str | int) -> Any:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await ask(self._redis, what, *words)
        except TimeoutError as error:
            raise Unavailable("Redis does not answer") from error
