"""Publishing: one message per fact, no waiting for readers, and a bounded stream.

One Lua script checks the id and the length, and adds the entry. It adds the entry before it stores the id, so a refusal
(OOM) cannot leave an id without its entry. Nothing is retried here: on Unreachable the outcome is unknown; the caller
goes on, notes that it must resync, and may publish the same id again (F8).

At the length limit the script first trims the entries that all groups have acknowledged. A stream
without any group has no reader that could miss an entry: its older half is trimmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.asyncio import Redis

from shared.errors import DovetailError, InvalidObject, Unavailable
from shared.redis.bus.connection import redis_errors, translated
from shared.redis.bus.envelope import Envelope
from shared.redis.bus.trim import SAFE_TRIM_FUNCTION

STREAM_LIMIT = 50_000
"""Length at which a publisher refuses to add entries; the receivers' resync finds the work (F10)."""
DEDUPE_MILLISECONDS = 60_000
PIPELINED = 100
"""Messages per round trip. Redis serves other clients between two scripts, not while one runs."""

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
        self.redis = redis
        """The command connection, also for the keys beside the streams (mirror, catalogue)."""
        self.prefix = prefix
        self._stream_limit = stream_limit
        self._script = redis.register_script(_PUBLISH)

    async def publish(self, stream: str, envelope: Envelope) -> bool:
        """True for a new entry, False for an id that was published within the last minute.

        Raises InvalidObject (too large), Unavailable (stream or Redis full) or Unreachable (unknown outcome): the
        caller goes on, and its receivers' resync finds the work.
        """
        keys, args = self._call(stream, envelope)
        async with redis_errors("publish"):
            answer = int(await self._script(keys=keys, args=args))
        return self._is_new(stream, answer)

    async def publish_all(self, messages: Sequence[tuple[str, Envelope]]) -> list[DovetailError]:
        """Publish in order, a hundred per round trip; continues after a refused message, and returns the refusals.

        Raises Unreachable, Unavailable or Unauthorized when Redis fails, and any message may have been added: publish
        all of them again, because repeats within a minute are dropped.
        """
        refused: list[DovetailError] = []
        for start in range(0, len(messages), PIPELINED):
            part = messages[start : start + PIPELINED]
            for (stream, _), answer in zip(part, await self._send(part), strict=True):
                try:
                    self._is_new(stream, _number(answer))
                except DovetailError as error:
                    refused.append(error)
        return refused

    async def _send(self, messages: Sequence[tuple[str, Envelope]]) -> list[object]:
        """One reply per message: the script's answer, or the error in its place."""
        answers: dict[int, object] = {}
        sent: list[int] = []
        # ``async with`` returns the connection to the pool: after an error, ``execute`` alone would keep it for ever.
        async with self.redis.pipeline(transaction=False) as pipeline:
            for index, (stream, envelope) in enumerate(messages):
                try:
                    keys, args = self._call(stream, envelope)
                except InvalidObject as error:
                    answers[index] = error
                    continue
                sent.append(index)
                await self._script(keys=keys, args=args, client=pipeline)
            async with redis_errors("publish"):
                found = await pipeline.execute(raise_on_error=False)
        answers |= zip(sent, found, strict=True)
        return [answers[index] for index in range(len(messages))]

    def _call(self, stream: str, envelope: Envelope) -> tuple[list[str], list[Any]]:
        """(keys, arguments) of the script. Raises InvalidObject."""
        flat = [part for pair in envelope.encode().items() for part in pair]
        keys = [f"{self.prefix}{stream}", f"{self.prefix}dedupe:{stream}:{envelope.id}"]
        return keys, [self._stream_limit, DEDUPE_MILLISECONDS, *flat]

    def _is_new(self, stream: str, answer: int) -> bool:
        """Whether the script added an entry. Raises Unavailable for a full stream."""
        if answer < 0:
            raise Unavailable(
                f"stream {stream} holds {self._stream_limit} entries that a group has not read",
                stream=stream,
            )
        return answer == 1


def _number(answer: object) -> int:
    """The script's answer. Raises the Dovetail error for an error in its place."""
    if isinstance(answer, Exception):
        with translated("publish"):
            raise answer
    return int(str(answer))
