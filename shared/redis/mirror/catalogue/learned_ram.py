"""What nodes told of their memory, in Redis: per (instance type, image) the least, and when it was last told (IT-12).

Two sorted sets, so that Redis itself keeps the lower size and the later time, whoever writes. What is lost here, the
launcher writes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from redis.asyncio import Redis

from shared.redis.bus.connection import ask, redis_errors

Sizes = dict[str, tuple[int, float]]
"""Type and image, with a space between -> (bytes, seconds since the epoch)."""


class LearnedMemory:
    """Every method raises what ``redis_errors`` raises."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._sizes = f"{prefix}memory"
        self._times = f"{prefix}memory:seen"

    async def read(self) -> Sizes:
        """Everything."""
        sizes = await self._scores(self._sizes)
        times = await self._scores(self._times)
        return {member: (int(size), times.get(member, 0.0)) for member, size in sizes.items()}

    async def write(self, known: Mapping[str, tuple[int, float]]) -> None:
        """Add these; of two sizes the lower stands, of two times the later."""
        with redis_errors("store the learned memory"):
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.zadd(self._times, {member: at for member, (_, at) in known.items()}, gt=True)
                pipe.zadd(self._sizes, {member: s for member, (s, _) in known.items()}, lt=True)
                await pipe.execute()

    async def drop(self, members: Iterable[str]) -> None:
        """Forget these."""
        gone = list(members)
        if not gone:
            return
        with redis_errors("forget learned memory"):
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.zrem(self._sizes, *gone)
                pipe.zrem(self._times, *gone)
                await pipe.execute()

    async def _scores(self, key: str) -> dict[str, float]:
        flat: list[bytes] = await ask(
            self._redis, "read the learned memory", "ZRANGE", key, 0, -1, "WITHSCORES"
        )
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return {member.decode(): float(score) for member, score in pairs}
