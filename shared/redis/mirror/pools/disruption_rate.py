"""The number of machines of each pool that were disrupted in the last hour, kept in Redis and counted by its clock.

When Redis loses its data, one hour's allowance may be used twice: the rate limits disruptions, it does not guarantee a
maximum.
"""

from __future__ import annotations

from collections.abc import Iterable

from redis.asyncio import Redis

from shared.redis.bus.connection import call, redis_errors, server_time

DISRUPTION_WINDOW_SECONDS = 3600.0
DISRUPTIONS_LIMIT = 10_000


class DisruptionRate:
    """One sorted set: ``pool key|machine uid``, scored by time."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._key = f"{prefix}disrupted"

    async def spend(self, pool_key: str, machine_uids: Iterable[str]) -> None:
        """Count these machines as disrupted now. Raises TransientError."""
        members = [f"{pool_key}|{uid}" for uid in machine_uids]
        if not members:
            return
        now = await server_time(self._redis)
        async with redis_errors("remember disruptions"):
            await self._redis.zremrangebyscore(self._key, "-inf", _oldest(now))
            await self._redis.zadd(self._key, dict.fromkeys(members, now), nx=True)
            await self._redis.zremrangebyrank(self._key, 0, -DISRUPTIONS_LIMIT - 1)

    async def spent(self) -> dict[str, int]:
        """Pool key -> machines disrupted in the last hour. Raises TransientError."""
        oldest = _oldest(await server_time(self._redis))
        members: list[bytes] = await call(
            self._redis, "read disruptions", "ZRANGEBYSCORE", self._key, oldest, "+inf"
        )
        found: dict[str, int] = {}
        for member in members:
            pool_key = member.decode().rpartition("|")[0]
            found[pool_key] = found.get(pool_key, 0) + 1
        return found


def _oldest(now: float) -> float:
    return now - DISRUPTION_WINDOW_SECONDS
