"""What the launcher knows about EC2 and the scheduler needs: the catalogue, and offerings without
capacity.

Both live in Redis for speed, and so that a new launcher begins with what the last one knew. The
launcher writes the catalogue again when it is gone; an unavailable offering that is forgotten costs
one failed request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

import msgspec
from redis.asyncio import Redis

from shared.concurrency.clock import Clock
from shared.domain.instance_types.types import Catalogue, decode_catalogue
from shared.domain.snapshot import OfferingKey
from shared.log import get_logger
from shared.redis.bus.connection import ask, redis_errors

log = get_logger(__name__)

MOST_UNAVAILABLE = 20_000
"""Offerings remembered at most; a region has about 10,000."""


class CatalogueSource(Protocol):
    """Who has the catalogue as somebody may use it."""

    async def get(self) -> Catalogue | None:
        """The newest; None before the first."""
        ...


class CatalogueStore:
    """The catalogue, stored under its generation. Its 3 MB are decoded in a thread: the loop turns on meanwhile."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._body = f"{prefix}catalogue"
        self._generation = f"{prefix}catalogue:generation"
        self._prices = f"{prefix}catalogue:prices"
        self._held: Catalogue | None = None
        self._decoding = asyncio.Lock()

    async def put(self, body: bytes, generation: str, prices: bytes = b"") -> None:
        """Publish an encoded catalogue (see ``encode_catalogue``), and the prices that it was made of, if given."""
        with redis_errors("store the catalogue"):
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.set(self._body, body)
                pipe.set(self._generation, generation)
                if prices:
                    pipe.set(self._prices, prices)
                await pipe.execute()

    async def generation(self) -> str:
        """The generation that is stored, empty for none."""
        found: bytes | None = await ask(
            self._redis, "read the catalogue's generation", "GET", self._generation
        )
        return found.decode() if found else ""

    async def get(self) -> Catalogue | None:
        """The newest catalogue; the one held before while Redis has none that can be read. None before the first."""
        async with self._decoding:  # who comes meanwhile wants the same
            generation = await self.generation()
            if generation and (self._held is None or self._held.generation != generation):
                body: bytes | None = await ask(self._redis, "read the catalogue", "GET", self._body)
                if body:
                    self._held = await asyncio.to_thread(_decoded, body) or self._held
            return self._held

    async def prices(self) -> bytes:
        """The prices that were put last, empty for none."""
        found: bytes | None = await ask(self._redis, "read the known prices", "GET", self._prices)
        return found or b""


def _decoded(body: bytes) -> Catalogue | None:
    """None for one that another version wrote: as good as none, until the launcher writes its own."""
    try:
        return decode_catalogue(body)
    except msgspec.DecodeError as error:
        log.warning("the stored catalogue cannot be read", error=str(error))
        return None


class UnavailableOfferings:
    """Offerings that EC2 refused, each until its time is over (LCH-61)."""

    def __init__(self, redis: Redis, prefix: str, clock: Clock) -> None:
        self._redis = redis
        self._key = f"{prefix}unavailable"
        self._clock = clock

    async def mark(self, offerings: Iterable[OfferingKey], *, seconds: float) -> None:
        """Remember these for ``seconds``."""
        until = self._clock.now() + seconds
        scores = {":".join(offering): until for offering in offerings}
        if not scores:
            return
        with redis_errors("mark offerings unavailable"):
            await self._redis.zadd(self._key, scores)
            await self._redis.zremrangebyrank(self._key, 0, -MOST_UNAVAILABLE - 1)

    async def current(self) -> frozenset[OfferingKey]:
        """Those that are unavailable now; expired ones are dropped."""
        now = self._clock.now()
        await ask(self._redis, "drop expired offerings", "ZREMRANGEBYSCORE", self._key, "-inf", now)
        members: list[bytes] = await ask(
            self._redis, "read unavailable offerings", "ZRANGE", self._key, 0, -1
        )
        found = [member.decode().split(":", 2) for member in members]
        return frozenset((parts[0], parts[1], parts[2]) for parts in found if len(parts) == 3)
