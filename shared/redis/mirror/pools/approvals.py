"""Disruption commands that wait for an approval, and the answers, kept in Redis so that a new leader goes on with them.

When Redis loses its data, the commands are found and offered again: nothing starts without an answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from redis.asyncio import Redis

from shared.redis.bus.connection import redis_errors


class Stored(NamedTuple):
    """Encoded offers and answers, both by the offer's id."""

    offers: dict[str, bytes]
    answers: dict[str, bytes]


_PUT = """
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if string.sub(member, 1, #ARGV[1] + 1) == ARGV[1] .. '\\n' then
    if ARGV[3] == 'once' then return 0 end
    redis.call('ZREM', KEYS[1], member)
  end
end
redis.call('ZADD', KEYS[1], 0, ARGV[1] .. '\\n' .. ARGV[2])
return 1
"""
_REMOVE = """
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  for _, id in ipairs(ARGV) do
    if string.sub(member, 1, #id + 1) == id .. '\\n' then redis.call('ZREM', KEYS[1], member) end
  end
end
return 0
"""


class ApprovalStore:
    """Offers, which the leading scheduler writes, and answers, which any replica writes, each once.

    Both are sorted sets with members of an id, a line break and a body. Hashes would fit better, but Redis 6.2 cannot
    allow a user to write one hash and only read another, and the scheduler may never write the mirror's.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._offers = f"{prefix}approvals"
        self._answers = f"{prefix}approvals:answers"
        self._put = redis.register_script(_PUT)
        self._remove = redis.register_script(_REMOVE)

    async def load(self) -> Stored:
        """All of them. Raises TransientError."""
        async with redis_errors("read approvals"):
            pipeline = self._redis.pipeline(transaction=False)
            for key in (self._offers, self._answers):
                pipeline.execute_command("ZRANGE", key, 0, -1)
            offers, answers = await pipeline.execute()
        return Stored(_by_id(offers), _by_id(answers))

    async def put(self, id_: str, body: bytes) -> None:
        """Store an offer. Raises TransientError."""
        async with redis_errors("store an offer for approval"):
            await self._put(keys=[self._offers], args=[id_, body, "again"])

    async def answer(self, id_: str, body: bytes) -> bool:
        """Store an answer; False when there is one already. Raises TransientError."""
        async with redis_errors("store an answer to an offer"):
            return bool(await self._put(keys=[self._answers], args=[id_, body, "once"]))

    async def remove(self, ids: Iterable[str]) -> None:
        """Forget these offers and answers. Raises TransientError."""
        names = list(ids)
        if names:
            async with redis_errors("forget offers for approval"):
                await self._remove(keys=[self._offers], args=names)
                await self._remove(keys=[self._answers], args=names)


def _by_id(members: Iterable[bytes]) -> dict[str, bytes]:
    split = (member.partition(b"\n") for member in members)
    return {name.decode(): body for name, _, body in split}
