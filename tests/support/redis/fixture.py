"""A real redis-server for tests, one per kind of binary that this machine has, and a cluster name
per test.

A conftest re-exports the fixtures: ``from tests.support.redis.fixture import cluster,
redis_server, redis_url``. The server lives for the session; ``cluster`` is unique per test, so
tests do not see each other's keys. A test that empties Redis may do so: nothing outlives a test.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.redis_server import SERVER_NAMES, redis_version, wheel_redis_server
from tests.support.redis.server import RedisServer

_numbers = itertools.count(1)


def redis_binaries() -> dict[str, Path]:
    """Redis binaries by version: those on PATH and the wheel's, each version once."""
    on_path = [Path(one) for name in SERVER_NAMES if (one := shutil.which(name))]
    wheel = wheel_redis_server()
    found = on_path if wheel is None else [wheel, *on_path]
    return {"v=" + ".".join(map(str, redis_version(binary))): binary for binary in found}


BINARIES = redis_binaries()


@pytest.fixture(scope="session", params=sorted(BINARIES))
def redis_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RedisServer]:
    """A running server, once per distinct binary."""
    server = RedisServer(tmp_path_factory.mktemp("redis"), binary=BINARIES[request.param])
    asyncio.run(server.start())
    yield server
    asyncio.run(server.stop())


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture
def cluster() -> str:
    """A cluster name that no other test uses."""
    return f"test-{next(_numbers)}"
