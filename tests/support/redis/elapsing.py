"""Times that services keep in Redis by its clock, as if a while had passed: no test can move the clock of a server."""

from __future__ import annotations

from typing import Any

import msgspec
from redis.asyncio import Redis

from shared.redis.bus.connection import call

SCORED = ("unavailable", "disrupted")
EXPIRING = ("launch-template:",)
BACKOFF = "launch-backoff:"


async def elapse(redis: Redis, prefix: str, seconds: float) -> None:
    """Let what is kept below ``prefix`` be ``seconds`` older."""
    pattern = f"{prefix.replace('{', '?').replace('}', '?')}*"
    for key in await call(redis, "list keys", "KEYS", pattern):
        name = key.decode().removeprefix(prefix)
        if name in SCORED:
            for member in await call(redis, "list members", "ZRANGE", key, 0, -1):
                await call(redis, "let it be older", "ZINCRBY", key, -seconds, member)
        elif name.startswith(EXPIRING):
            await redis.pexpire(key, await redis.pttl(key) - int(seconds * 1000))
        elif name.startswith(BACKOFF):
            await _waited(redis, key, seconds)


async def _waited(redis: Redis, key: bytes, seconds: float) -> None:
    known: dict[str, Any] = msgspec.json.decode(await redis.get(key) or b"{}")
    if known.get("until"):
        known["until"] -= seconds
        await redis.set(key, msgspec.json.encode(known), keepttl=True)
