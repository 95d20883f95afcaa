"""The simulation's Redis, reached by the services' own clients over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus
from simulation.servers.redis import RedisServer
from tests.simulation.invariants.builders import CLUSTER, History


@pytest.fixture
def history() -> History:
    """A world with an empty Redis."""
    made = History()
    made.redis = RedisServer(made.clock.monotonic)
    return made


@pytest.fixture
async def bus(history: History) -> AsyncIterator[Bus]:
    """A service's connections to it."""
    loop = asyncio.get_running_loop()
    server: Any = await loop.create_server(history.redis.connection, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = Bus(f"redis://127.0.0.1:{port}/0", CLUSTER, clock=SystemClock(), random=Random(1))
    yield made
    await made.close()
    server.close()
