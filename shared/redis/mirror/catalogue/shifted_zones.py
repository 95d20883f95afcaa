"""The zones that the cluster is shifted away from, for all services that call EC2 for a zone (GAT-03).

The launcher writes them with each read of the zonal shifts. They expire soon after its last write: a launcher that is
down for long must not keep a zone's instances alive for ever. Readers keep the last known zones while Redis is
unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec
from redis.asyncio import Redis

from shared.concurrency.clock import Clock
from shared.errors import TransientError
from shared.log import get_logger
from shared.redis.bus.connection import call, redis_errors

log = get_logger(__name__)

SHIFTED_ZONES_TTL_SECONDS = 90
"""Three of the launcher's reads: one failed read does not end a shift."""
SHIFTED_ZONES_CACHE_SECONDS = 5.0
"""Hundreds of terminations read the zones at each of their steps; most are served from this cache."""
_DECODER = msgspec.json.Decoder(frozenset[str])


class ShiftedZones:
    """Names of zones, all in one document."""

    def __init__(self, redis: Redis, prefix: str, clock: Clock) -> None:
        self._redis = redis
        self._key = f"{prefix}shifted-zones"
        self._clock = clock
        self._held: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()

    async def put(self, zones: Collection[str]) -> None:
        """Replace the stored zones."""
        body = msgspec.json.encode(sorted(zones))
        async with redis_errors("store the shifted zones"):
            await self._redis.set(self._key, body, ex=SHIFTED_ZONES_TTL_SECONDS)

    async def current(self) -> frozenset[str]:
        """The shifted zones, at most five seconds old; empty while none are stored."""
        async with self._reading:
            if self._clock.monotonic() - self._read_at >= SHIFTED_ZONES_CACHE_SECONDS:
                await self._read()
                self._read_at = self._clock.monotonic()
        return self._held

    async def _read(self) -> None:
        try:
            body: bytes | None = await call(self._redis, "read the shifted zones", "GET", self._key)
            self._held = _DECODER.decode(body) if body else frozenset()
        except TransientError as error:
            log.warning("shifted zones are as last known", error=error.message)
        except msgspec.DecodeError as error:
            log.warning("the stored shifted zones cannot be read", error=str(error))
