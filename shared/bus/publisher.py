"""Publishing: ring the doorbell once per fact, never block the caller, never grow without bound.

One Lua script checks the id, the length and adds the entry. The entry is added before the id is
remembered, so a refusal (OOM) cannot leave an id remembered without its entry. Nothing is retried
here: on Unreachable the outcome is unknown and the caller carries on, marks that it must resync,
and may publish the same id again (F8).

At the high-water mark the script first trims what all groups are done with. A stream without any
group has no reader who could miss something: its older half goes.
"""

from __future__ import annotations

from redis.asyncio import Redis

from shared.bus.connection import redis_errors
from shared.bus.envelope import Envelope
from shared.bus.metrics import BusMetrics
from shared.bus.trim import SAFE_TRIM_FUNCTION
from shared.errors import DovetailError, Unavailable

STREAM_LIMIT = 50_000
"""Entries at which a publisher stops ringing; the receivers' own resync finds the work (F10)."""
DEDUPE_MILLISECONDS = 60_000

_PUBLISH = (
    SAFE_TRIM_FUNCTION
    + """
local limit = tonumber(ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('XLEN', KEYS[1]) >= limit then
  if safe_trim(KEYS[1]) == -1 then
    redis.call('XTRIM', KEYS[1], 'MAXLEN', math.floor(limit / 2))
  end
  if redis.call('XLEN', KEYS[1]) >= limit then return -1 end
end
redis.call('XADD', KEYS[1], '*', unpack(ARGV, 3))
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
return 1
"""
)


class Publisher:
    """Adds envelopes to streams of one cluster."""

    def __init__(self, redis: Redis, prefix: str, *, stream_limit: int = STREAM_LIMIT) -> None:
        self._prefix = prefix
        self._stream_limit = stream_limit
        self._script = redis.register_script(_PUBLISH)

    async def publish(self, stream: str, envelope: Envelope, metrics: BusMetrics) -> bool:
        """True for a new entry, False for an id that was published within the last minute.

        Raises InvalidObject (too large), Unavailable (stream or Redis full) or Unreachable
        (outcome unknown).
        """
        fields = envelope.encode()
        try:
            return await self._add(stream, envelope.id, fields, metrics)
        except DovetailError:
            metrics.publish_errors += 1
            raise

    async def _add(
        self, stream: str, message_id: str, fields: dict[str, bytes], metrics: BusMetrics
    ) -> bool:
        keys = [f"{self._prefix}{stream}", f"{self._prefix}dedupe:{stream}:{message_id}"]
        flat = [part for pair in fields.items() for part in pair]
        with redis_errors("publish"):
            added = int(
                await self._script(keys=keys, args=[self._stream_limit, DEDUPE_MILLISECONDS, *flat])
            )
        if added < 0:
            raise Unavailable(
                f"stream {stream} holds {self._stream_limit} entries that a group has not read",
                stream=stream,
            )
        metrics.published += added
        metrics.duplicates += 1 - added
        return added == 1
