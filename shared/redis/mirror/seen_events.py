"""The events that any service has written already: one expiring key in Redis per event (EVT-03).

What may go wrong: Redis does not answer. The recorder then writes the event: a duplicate is better than none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from shared.errors import Unavailable
from shared.redis.bus.connection import call

REPLY_TIMEOUT_SECONDS = 1.0
"""Events must not wait for a Redis that hangs."""


class SharedSeenEvents:
    """``SeenEvents`` of all services of one cluster. Expiry and each recorder's rate limit bound the number of keys."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}event:"

    async def first(self, key: str, seconds: float) -> bool:
        """Whether no service saw ``key`` in the last ``seconds``. Raises TransientError."""
        if seconds <= 0:
            return True
        milliseconds = max(1, int(seconds * 1000))
        command = ("SET", self._prefix + key, "1", "NX", "PX", milliseconds)
        return await self._execute("store a seen event", *command) is not None

    async def has(self, key: str) -> bool:
        """Whether a service saw ``key`` and the key has not expired. Raises TransientError."""
        return bool(await self._execute("read a seen event", "EXISTS", self._prefix + key))

    async def _execute(self, operation: str, *command: str | int) -> Any:
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
                return await call(self._redis, operation, *command)
        except TimeoutError as error:
            raise Unavailable("Redis does not answer") from error
