"""A real Redis of each kind that this machine has, beside one in memory that replies as that version does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from simulation.servers.redis import REDIS_6, REDIS_7
from tests.support.redis.agreement import Agreement, RealServer
from tests.support.redis.fixture import redis_server
from tests.support.redis.in_memory import MemoryServer
from tests.support.redis.server import RedisServer

__all__ = ["redis_server"]


@pytest.fixture
def version(redis_server: RedisServer) -> tuple[int, ...]:
    """Which version the server in memory must equal. Skips those that it does not know."""
    with_info = RealServer(redis_server.port)
    text = with_info.ask(b"INFO", b"server").split(b"redis_version:")[1].split(b"\r\n")[0]
    with_info.close()
    found = tuple(map(int, text.split(b".")))
    if found[:2] not in (REDIS_6[:2], REDIS_7[:2]):
        pytest.skip(f"Redis {text.decode()} is neither 6.2 nor 7.0")
    return REDIS_6 if found < (7,) else REDIS_7


@pytest.fixture
def agreement(redis_server: RedisServer, version: tuple[int, ...]) -> Iterator[Agreement]:
    """An empty real server and an empty one in memory."""
    real = RealServer(redis_server.port)
    yield fresh(real, version)
    real.ask(b"CONFIG", b"SET", b"maxmemory", b"0")
    real.close()


def fresh(real: RealServer, version: tuple[int, ...]) -> Agreement:
    """Both empty. Redis 6.2 words some errors otherwise; their codes are equal."""
    real.ask(b"DISCARD")
    real.ask(b"FLUSHALL")
    return Agreement(real, MemoryServer(version=version), exact_errors=version >= (7,))
