"""A real Redis for what the invariants read in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import redis

from tests.services.conftest import redis_url  # noqa: F401
from tests.simulation.invariants.builders import History


@pytest.fixture
def history(redis_url: str) -> Iterator[History]:  # noqa: F811
    """A world with an empty Redis."""
    client = redis.Redis.from_url(redis_url, protocol=2)
    client.flushall()
    made = History()
    made.redis = SimpleNamespace(execute=raw(client))
    yield made
    client.close()


def raw(client: redis.Redis) -> Callable[..., Any]:
    """Commands with replies as Redis sends them."""
    client.response_callbacks.clear()
    return client.execute_command
