"""A Redis with every user's rights, once per kind of binary that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.redis.fixture import BINARIES
from tests.support.redis.guarded import GuardedRedis, guarded_redis


@pytest.fixture(scope="session", params=sorted(BINARIES))
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GuardedRedis]:
    """Protected, as by default: the rights alone let anybody in."""
    folder = tmp_path_factory.mktemp("guarded")
    with guarded_redis(folder, BINARIES[request.param]) as redis:
        yield redis
