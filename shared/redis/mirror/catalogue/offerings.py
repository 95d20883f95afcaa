"""The instance type catalogue and the unavailable offerings, which the launcher writes for the scheduler.

Redis keeps both, so a new launcher starts with the state of the previous one. The launcher writes a
lost catalogue again; a lost unavailable offering costs one failed request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

import msgspec
from redis.asyncio import Redis

from shared.domain.instance_types.types import Catalogue, decode_catalogue
from shared.domain.snapshot import OfferingKey
from shared.log import get_logger
from shared.redis.bus.connection import call, redis_errors, server_time

log = get_logger(__name__)

UNAVAILABLE_OFFERINGS_LIMIT = 20_000
"""Most unavailable offerings that are kept; a region has about 10,000 offerings."""


class CatalogueSource(Protocol):
    """A source of catalogues: the store, or one that corrects another source's catalogue."""

    async def get(self) -> Catalogue | None:
        """The newest; None before the first."""
        ...


class _Freshness(msgspec.Struct, frozen=True):
    """``until``: seconds since the epoch by Redis' own clock."""

    request: str
    until: float


class CatalogueStore:
    """The catalogue and its generation. A thread decodes its 3 MB, so that the event loop is not blocked."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._body = f"{prefix}catalogue"
        self._generation = f"{prefix}catalogue:generation"
        self._prices = f"{prefix}catalogue:prices"
        self._freshness = f"{prefix}catalogue:fresh"
        self._held: Catalogue | None = None
        self._decoding = asyncio.Lock()

    async def put(self, body: bytes, generation: str, prices: bytes = b"") -> None:
        """Store an encoded catalogue (see ``encode_catalogue``), and the prices that it was built from, if given."""
        async with (
            redis_errors("store the catalogue"),
            self._redis.pipeline(transaction=True) as pipe,
        ):
            pipe.set(self._body, body)
            pipe.set(self._generation, generation)
            if prices:
                pipe.set(self._prices, prices)
            await pipe.execute()

    async def generation(self) -> str:
        """The stored generation; empty when there is none."""
        found: bytes | None = await call(
            self._redis, "read the catalogue's generation", "GET", self._generation
        )
        return found.decode() if found else ""

    async def keep_fresh(self, request: str, seconds: float) -> None:
        """Store that what ``request`` (any text) asks of AWS need not be read again for ``seconds``."""
        until = await server_time(self._redis) + seconds
        body = msgspec.json.encode(_Freshness(request, until))
        await call(self._redis, "store the catalogue's age", "SET", self._freshness, body)

    async def fresh_seconds(self, request: str) -> float:
        """How long nobody needs to read again what ``request`` asks of AWS; 0: unknown, over, or another request."""
        body: bytes | None = await call(
            self._redis, "read the catalogue's age", "GET", self._freshness
        )
        try:
            found = msgspec.json.decode(body or b"null", type=_Freshness | None)
        except msgspec.DecodeError:
            return 0.0  # of another version
        if found is None or found.request != request:
            return 0.0
        return max(0.0, found.until - await server_time(self._redis))

    async def get(self) -> Catalogue | None:
        """The newest catalogue; the last readable one while Redis has none. None before the first one."""
        async with self._decoding:  # concurrent callers share one decoding
            generation = await self.generation()
            if generation and (self._held is None or self._held.generation != generation):
                body: bytes | None = await call(
                    self._redis, "read the catalogue", "GET", self._body
                )
                if body:
                    self._held = await asyncio.to_thread(_decoded, body) or self._held
            return self._held

    async def prices(self) -> bytes:
        """The stored prices; empty when there are none."""
        found: bytes | None = await call(self._redis, "read the known prices", "GET", self._prices)
        return found or b""


def _decoded(body: bytes) -> Catalogue | None:
    """None for a document of another version: it counts as absent until the launcher writes a new one."""
    try:
        return decode_catalogue(body)
    except msgspec.DecodeError as error:
        log.warning("the stored catalogue cannot be read", error=str(error))
        return None


class UnavailableOfferings:
    """Offerings that EC2 refused, each until it expires (LCH-61), by Redis' clock: a service's own may be wrong."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._key = f"{prefix}unavailable"

    async def add(self, offerings: Iterable[OfferingKey], *, seconds: float) -> None:
        """Keep these offerings as unavailable for ``seconds``."""
        members = [":".join(offering) for offering in offerings]
        if not members:
            return
        now = await server_time(self._redis)
        scores = dict.fromkeys(members, now + seconds)
        async with redis_errors("store unavailable offerings"):
            await self._redis.zadd(self._key, scores)
            await self._redis.zremrangebyscore(self._key, "-inf", now)
            await self._redis.zremrangebyrank(self._key, 0, -UNAVAILABLE_OFFERINGS_LIMIT - 1)

    async def current(self) -> frozenset[OfferingKey]:
        """The offerings that are unavailable now."""
        now = await server_time(self._redis)
        members: list[bytes] = await call(
            self._redis, "read unavailable offerings", "ZRANGEBYSCORE", self._key, f"({now}", "+inf"
        )
        found = [member.decode().split(":", 2) for member in members]
        return frozenset((parts[0], parts[1], parts[2]) for parts in found if len(parts) == 3)
