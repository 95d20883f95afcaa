"""Delayed retry: a sorted set per stream, scored by the time an entry is due.

The scores are times of Redis' own clock, so services need not agree on the time; a jump of that clock makes a retry
early or late, never lost. The delayed copy is written before the entry is acknowledged: a crash between the two
commands leaves a duplicate, never a loss. One script moves due entries back; any consumer may run it at any time.
"""

from __future__ import annotations

import asyncio
import math
import random

from redis.asyncio import Redis

from shared.concurrency.backoff import doubled
from shared.errors import Unavailable
from shared.redis.bus.connection import redis_errors
from shared.redis.bus.envelope import Envelope

DELAY_LIMIT = 50_000
"""Most delayed entries per stream; beyond it an entry stays pending in the stream instead."""
MOVE_BATCH = 100
LONGEST_DELAY_SECONDS = 300.0
FREELY_CHOSEN = 12
"""How many retries of a message come as soon as its handler asks."""
LASTING_DELAY_SECONDS = 30.0
"""Shortest delay of a message that has waited long. So what lasts for minutes makes no dead letter, whatever delay a
handler asks for: the 120 retries of ``AttemptLimits`` take 50 minutes or more."""
ADDED_JITTER = 0.2
"""Largest share of the requested delay that is added at random, so that retries spread."""

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_PUT = (
    _NOW
    + """
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
local fields = {}
for i = 3, #ARGV do fields[#fields + 1] = ARGV[i] end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), cmsgpack.pack(fields))
return 1
"""
)
_MOVE = (
    _NOW
    + """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, member in ipairs(due) do
  redis.call('XADD', KEYS[2], '*', unpack(cmsgpack.unpack(member)))
  redis.call('ZREM', KEYS[1], member)
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if #first == 0 then return -1 end
return math.max(0, first[2] - now)
"""
)


def delay_seconds(requested: float | None, attempt: int, source: random.Random) -> float:
    """Seconds until a message is delivered again. ``attempt`` is 0 for the first retry.

    A requested delay is never shortened (it may be a Retry-After); from the thirteenth retry on it is at least 1, 2,
    4 … 30 s. Without one it doubles from 1 s to 300 s, ± 50 %.
    """
    if requested is not None:
        shortest = 0.0
        if attempt >= FREELY_CHOSEN:
            shortest = doubled(attempt - FREELY_CHOSEN, first=1.0, cap=LASTING_DELAY_SECONDS)
        return max(shortest, requested) * (1 + ADDED_JITTER * source.random())
    return doubled(attempt, first=1.0, cap=LONGEST_DELAY_SECONDS) * source.uniform(0.5, 1.5)


class DelaySet:
    """The waiting retries of one stream."""

    def __init__(self, redis: Redis, stream_key: str, delay_key: str) -> None:
        self._stream_key = stream_key
        self._delay_key = delay_key
        self.added = asyncio.Event()
        """Set by ``put``: the entry may be due before what ``move_due`` said last."""
        self._put = redis.register_script(_PUT)
        self._move = redis.register_script(_MOVE)

    async def put(self, envelope: Envelope, seconds: float) -> None:
        """Deliver ``envelope`` again after ``seconds``. Raises Unavailable when ``DELAY_LIMIT`` entries wait."""
        flat = [part for pair in envelope.encode().items() for part in pair]
        async with redis_errors("delay"):
            stored = await self._put(
                keys=[self._delay_key], args=[DELAY_LIMIT, round(seconds * 1000), *flat]
            )
        if not stored:
            raise Unavailable(f"{DELAY_LIMIT} messages wait for a retry already")
        self.added.set()

    async def move_due(self) -> float:
        """Put due messages back on the stream, at most a batch; seconds until the next is due, infinite for none."""
        async with redis_errors("move due retries"):
            milliseconds = int(
                await self._move(keys=[self._delay_key, self._stream_key], args=[MOVE_BATCH])
            )
        return math.inf if milliseconds < 0 else milliseconds / 1000
