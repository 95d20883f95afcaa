"""What a Redis server says of itself, and whether it lets everybody in. Both change nothing.

Errors: TransientError when it does not answer, Unauthorized when its user may not ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from redis.asyncio import Redis

from shared.errors import Unauthorized
from shared.redis.bus.connection import call, connect


@dataclass(frozen=True)
class ServerFacts:
    """``seconds``: the server's clock. ``writes_fail``: the last write of a file failed. Memory in bytes."""

    version: str
    policy: str
    used: int
    limit: int
    persistent: bool
    writes_fail: bool
    seconds: float


async def server_facts(redis: Redis) -> ServerFacts:
    """From INFO and TIME."""
    seconds, micros = await call(redis, "read the time", "TIME")
    text = bytes(await call(redis, "read the server's state", "INFO")).decode(errors="replace")
    facts = dict(line.partition(":")[::2] for line in text.splitlines() if ":" in line)
    ok = ("ok", "")
    return ServerFacts(
        version=facts.get("valkey_version") or facts.get("redis_version", ""),
        policy=facts.get("maxmemory_policy", ""),
        used=int(facts.get("used_memory", 0)),
        limit=int(facts.get("maxmemory", 0)),
        persistent=facts.get("aof_enabled") == "1" or int(facts.get("rdb_saves", 0)) > 0,
        writes_fail=not (
            facts.get("aof_last_write_status", "") in ok
            and facts.get("rdb_last_bgsave_status", "") in ok
        ),
        seconds=int(seconds) + int(micros) / 1e6,
    )


async def lets_everybody_in(url: str) -> bool:
    """Whether a connection without a password may read keys. Raises TransientError."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    redis = connect(urlunsplit((parts.scheme, place, parts.path, parts.query, "")), connections=1)
    try:
        await call(redis, "read a key without a password", "EXISTS", "dovetail")
    except Unauthorized:
        return False
    finally:
        await redis.aclose()
    return True
