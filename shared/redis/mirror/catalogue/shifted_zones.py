"""From which zones the cluster is shifted away, for all who would ask or order something of EC2 there (GAT-03).

The launcher writes them at each of its looks. They end by themselves a little after its last one: a launcher that is
away for long must not keep a zone's instances alive for ever. While Redis is away what was known last goes on holding.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec
from redis.asyncio import Redis

from shared.concurrency.clock import Clock
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.bus.connection import ask, redis_errors

log = get_logger(__name__)

KEPT_SECONDS = 90
"""Three looks."""
FRESH_SECONDS = 5.0
"""Hundreds of terminations ask at each of their steps."""
_DECODER = msgspec.json.Decoder(frozenset[str])


class ShiftedZones:
    """Names of zones, all in one document."""

    def __init__(self, redis: Redis, prefix: str, clock: Clock) -> None:
        self._redis = redis
        self._key = f"{prefix}shifted-zones"
        self._clock = clock
        self._held: frozenset[str] = frozenset()
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    async def put(self, zones: Collection[str]) -> None:
        """Replace what holds."""
        with redis_errors("store the shifted zones"):
            await self._redis.set(self._key, msgspec.json.encode(sorted(zones)), ex=KEPT_SECONDS)

    async def current(self) -> frozenset[str]:
        """As of the last five seconds. None of them while nobody wrote."""
        async with self._asking:
            if self._clock.monotonic() - self._asked >= FRESH_SECONDS:
                await self._ask()
                self._asked = self._clock.monotonic()
        return self._held

    async def _ask(self) -> None:
        try:
            body: bytes | None = await ask(self._redis, "read the shifted zones", "GET", self._key)
            self._held = _DECODER.decode(body) if body else frozenset()
        except TransientError as error:
            log.warning("shifted zones are as last known", error=error.message)
        except msgspec.DecodeError as error:
            log.warning("the stored shifted zones cannot be read", error=str(error))
