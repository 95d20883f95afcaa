"""Memory that nodes reported, in Redis: the smallest size per (instance type, image), and the latest report (IT-12).

Two sorted sets, so that Redis itself keeps the smaller size and the later time with several writers. The launcher
writes entries again that Redis lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from redis.asyncio import Redis

from shared.redis.bus.connection import call, redis_errors

Sizes = dict[str, tuple[int, float]]
"""Type and image, with a space between -> (bytes, seconds since the epoch)."""


class LearnedMemory:
    """Every method raises what ``redis_errors`` raises."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._sizes = f"{prefix}memory"
        self._times = f"{prefix}memory:seen"

    async def read(self) -> Sizes:
        """All learned sizes."""
        sizes = await self._scores(self._sizes)
        times = await self._scores(self._times)
        return {member: (int(size), times.get(member, 0.0)) for member, size in sizes.items()}

    async def write(self, known: Mapping[str, tuple[int, float]]) -> None:
        """Add sizes; the smaller of two sizes is kept, and the later of two times."""
        async with (
            redis_errors("store the learned memory"),
            self._redis.pipeline(transaction=True) as pipe,
        ):
            pipe.zadd(self._times, {member: at for member, (_, at) in known.items()}, gt=True)
            pipe.zadd(self._sizes, {member: s for member, (s, _) in known.items()}, lt=True)
            await pipe.execute()

    async def drop(self, members: Iterable[str]) -> None:
        """Remove these entries."""
        gone = list(members)
        if not gone:
            return
        async with (
            redis_errors("forget learned memory"),
            self._redis.pipeline(transaction=True) as pipe,
        ):
            pipe.zrem(self._sizes, *gone)
            pipe.zrem(self._times, *gone)
            await pipe.execute()

    async def _scores(self, key: str) -> dict[str, float]:
        flat: list[bytes] = await call(
            self._redis, "read the learned memory", "ZRANGE", key, 0, -1, "WITHSCORES"
        )
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return {member.decode(): float(score) for member, score in pairs}
