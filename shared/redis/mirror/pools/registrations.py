"""The last few registrations of each pool: good or failed (NP-15, LCH-77).

The launcher writes them, the watcher makes the pool's condition NodeRegistrationHealthy of them. Told twice, an outcome
counts once. What may go wrong: Redis forgets; the condition then stays as it is until the next outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from shared.redis.bus.connection import ask, redis_errors

REMEMBERED = 4
"""Outcomes per pool."""
KEPT_SECONDS = 30 * 24 * 3600
_GOOD, _BAD = "1", "0"


class RegistrationOutcomes:
    """A short list in Redis per pool. Every method raises TransientError while Redis is away."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}registrations:"

    async def record(self, pool_key: str, machine_uid: str, *, good: bool) -> None:
        """The newest outcome; the oldest one beyond ``REMEMBERED`` goes."""
        key, member = self._prefix + pool_key, f"{_GOOD if good else _BAD}:{machine_uid}"
        with redis_errors("remember a registration"):
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.lrem(key, 0, member)
                pipe.lpush(key, member)
                pipe.ltrim(key, 0, REMEMBERED - 1)
                pipe.expire(key, KEPT_SECONDS)
                await pipe.execute()

    async def recent(self, pool_keys: Sequence[str]) -> dict[str, tuple[bool, ...]]:
        """Newest first, by pool; nothing for a pool without any."""
        if not pool_keys:
            return {}
        with redis_errors("read registrations"):
            async with self._redis.pipeline(transaction=False) as pipe:
                for pool in pool_keys:
                    pipe.lrange(self._prefix + pool, 0, REMEMBERED - 1)
                answers = await pipe.execute()
        return {
            pool: tuple(member.startswith(_GOOD.encode()) for member in answer)
            for pool, answer in zip(pool_keys, answers, strict=True)
            if answer
        }

    async def forget(self, pool_key: str) -> None:
        """The pool or its class changed: what came before says nothing of it."""
        await ask(self._redis, "forget registrations", "DEL", self._prefix + pool_key)
