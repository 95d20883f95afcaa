"""Disruption commands that wait for an approval, and the answers, kept in Redis so that a new leader goes on with them.

When Redis loses its data, the commands are found and offered again: nothing starts without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from redis.asyncio import Redis

from shared.redis.bus.connection import call, pairs, redis_errors


class Stored(NamedTuple):
    """Encoded offers and answers, both by the offer's id."""

    offers: dict[str, bytes]
    answers: dict[str, bytes]


class ApprovalStore:
    """Two hashes: offers, which the leading scheduler writes, and answers, which any replica writes, each once."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._offers = f"{prefix}approvals"
        self._answers = f"{prefix}approvals:answers"

    async def load(self) -> Stored:
        """All of them. Raises TransientError."""
        offers, answers = [await self._all(key) for key in (self._offers, self._answers)]
        return Stored(offers, answers)

    async def put(self, id_: str, body: bytes) -> None:
        """Store an offer. Raises TransientError."""
        async with redis_errors("store an offer for approval"):
            await self._redis.hset(self._offers, id_, body)

    async def answer(self, id_: str, body: bytes) -> bool:
        """Store an answer; False when there is one already. Raises TransientError."""
        async with redis_errors("store an answer to an offer"):
            return bool(await self._redis.hsetnx(self._answers, id_, body))

    async def remove(self, ids: Iterable[str]) -> None:
        """Forget these offers and answers. Raises TransientError."""
        names = list(ids)
        if names:
            async with redis_errors("forget offers for approval"):
                await self._redis.hdel(self._offers, *names)
                await self._redis.hdel(self._answers, *names)

    async def _all(self, key: str) -> dict[str, bytes]:
        found = await call(self._redis, "read approvals", "HGETALL", key)
        listed = found.items() if isinstance(found, dict) else pairs(found).items()
        return {name.decode(): body for name, body in listed}
