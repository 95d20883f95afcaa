"""The last few registration outcomes of each pool (NP-15, LCH-77).

The launcher and the terminator write them; the watcher derives the pool's condition NodeRegistrationHealthy from them.
An outcome that is reported twice counts once. What may go wrong: Redis loses its data; the condition then stays
unchanged until the next outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import Redis

from shared.redis.bus.connection import call, redis_errors

OUTCOMES_PER_POOL = 4
OUTCOMES_TTL_SECONDS = 30 * 24 * 3600
_GOOD, _BAD = "1", "0"


class RegistrationOutcomes:
    """A short list in Redis per pool. Every method raises TransientError while Redis is away."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}registrations:"

    async def record(self, pool_key: str, machine_uid: str, *, good: bool) -> None:
        """Add the newest outcome, and drop the oldest one beyond ``OUTCOMES_PER_POOL``."""
        key, member = self._prefix + pool_key, f"{_GOOD if good else _BAD}:{machine_uid}"
        async with (
            redis_errors("remember a registration"),
            self._redis.pipeline(transaction=True) as pipe,
        ):
            pipe.lrem(key, 0, member)
            pipe.lpush(key, member)
            pipe.ltrim(key, 0, OUTCOMES_PER_POOL - 1)
            pipe.expire(key, OUTCOMES_TTL_SECONDS)
            await pipe.execute()

    async def recent(self, pool_keys: Sequence[str]) -> dict[str, tuple[bool, ...]]:
        """Pool key -> outcomes, newest first; a pool without outcomes is absent."""
        if not pool_keys:
            return {}
        async with (
            redis_errors("read registrations"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for pool in pool_keys:
                pipe.lrange(self._prefix + pool, 0, OUTCOMES_PER_POOL - 1)
            answers = await pipe.execute()
        return {
            pool: tuple(member.startswith(_GOOD.encode()) for member in answer)
            for pool, answer in zip(pool_keys, answers, strict=True)
            if answer
        }

    async def forget(self, pool_key: str) -> None:
        """Delete the pool's outcomes: the pool or its class changed, and they describe the earlier version."""
        await call(self._redis, "forget registrations", "DEL", self._prefix + pool_key)
