"""Follows streams without a consumer group: every message is seen, none is taken from anybody.

For who only looks on. Nothing is acknowledged and nothing is delivered again: what came while Redis was away, or was
trimmed before it was read, is missed. What may go wrong: a message that cannot be read, or that the handler refuses; it
is passed over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.concurrency.clock import Clock
from shared.concurrency.waiting import run_until
from shared.errors import DovetailError
from shared.log import get_logger
from shared.redis.bus.connection import (
    REDIS_FAILURES,
    blocking_call,
    connect,
    pairs,
    reconnect_pauses,
    server_time,
)
from shared.redis.bus.envelope import Envelope, Handler

log = get_logger(__name__)

BLOCK_MILLISECONDS = 1000
READ_BATCH = 500


@dataclass
class Follower:
    """``handlers``: by stream. Messages of before the start are not seen."""

    redis_url: str
    prefix: str
    handlers: Mapping[str, Handler]
    clock: Clock
    block_milliseconds: int = BLOCK_MILLISECONDS
    last_progress: float = 0.0
    """Monotonic time of the last read."""
    seen: int = 0
    positions: dict[str, bytes] = field(default_factory=dict)
    """Id of the last entry of each stream; empty before the first read."""

    async def run(self, stop: asyncio.Event) -> None:
        """Follow until ``stop``. Failures of Redis are retried for ever."""
        redis = connect(self.redis_url, prefix=self.prefix, connections=1)
        try:
            await run_until(stop, self._follow(redis))
        finally:
            await redis.aclose()

    async def _follow(self, redis: Any) -> None:
        backoff = reconnect_pauses(None)
        while True:
            self.last_progress = self.clock.monotonic()
            try:
                await self._read(redis)
            except REDIS_FAILURES as error:
                log.debug("the streams cannot be followed", error=error.message)
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    async def _read(self, redis: Any) -> None:
        if not self.positions:
            # Not "$": that would be another entry at each read, and what came between two reads would be missed.
            now = f"{int(await server_time(redis) * 1000)}-0".encode()
            self.positions = dict.fromkeys(self.handlers, now)
        keys = {f"{self.prefix}{stream}": stream for stream in self.handlers}
        options = ("COUNT", READ_BATCH, "BLOCK", self.block_milliseconds, "STREAMS")
        positions = [self.positions[stream] for stream in keys.values()]
        reply = await blocking_call(
            redis, "follow the streams", self.block_milliseconds,
            "XREAD", *options, *keys, *positions,
        )  # fmt: skip
        for key, entries in reply or ():
            stream = keys[key.decode()]
            for entry_id, fields in entries:
                self.positions[stream] = entry_id
                await self._show(stream, pairs(fields))

    async def _show(self, stream: str, fields: dict[bytes, Any]) -> None:
        self.seen += 1
        try:
            await self.handlers[stream](Envelope.decode(fields))
        except DovetailError as error:
            log.debug("a message is passed over", stream=stream, error=error.message)
