"""The depth of the streams, read from a real Redis."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from cli.operations.queues import QueueDepth, queue_depths
from shared.concurrency.clock import SystemClock
from shared.errors import TransientError
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.messages import LaunchMachine, encode
from tests.support.redis.fixture import redis_server
from tests.support.redis.server import RedisServer

__all__ = ["redis_server"]

CLUSTER = "depths"


@pytest.fixture
async def bus(redis_server: RedisServer) -> AsyncIterator[Bus]:
    """On an empty Redis."""
    made = Bus(redis_server.url, CLUSTER, clock=SystemClock(), random=random.Random(1))
    await made.redis.flushall()
    yield made
    await made.close()


async def launches(url: str) -> QueueDepth:
    (depth,) = [one for one in await queue_depths(url, CLUSTER) if one.stream == streams.LAUNCHES]
    return depth


async def publish(bus: Bus, *machines: str) -> None:
    for machine in machines:
        message = encode(LaunchMachine(machine=machine), cause=machine, clock=SystemClock())
        await bus.publish(streams.LAUNCHES, message)


async def test_a_stream_that_does_not_exist_is_drained(redis_server: RedisServer, bus: Bus) -> None:
    depths = await queue_depths(redis_server.url, CLUSTER)
    assert [(one.stream, one.group) for one in depths] == [
        (stream, group) for stream, groups in streams.GROUPS.items() for group in groups
    ]
    assert all(one.drained and one.length == one.dead == 0 for one in depths)


async def test_entries_without_a_group_are_not_drained(redis_server: RedisServer, bus: Bus) -> None:
    await publish(bus, "a", "b")
    depth = await launches(redis_server.url)
    assert (depth.length, depth.pending, depth.drained) == (2, 0, False)


async def test_a_group_is_drained_when_it_has_read_and_acknowledged_everything(
    redis_server: RedisServer, bus: Bus
) -> None:
    await publish(bus, "a")
    stream = bus.prefix + streams.LAUNCHES
    await bus.redis.xgroup_create(stream, "launcher", id="0")
    assert (await launches(redis_server.url)).behind
    read = await bus.redis.xreadgroup("launcher", "x", {stream: ">"})
    depth = await launches(redis_server.url)
    assert (depth.pending, depth.behind, depth.drained) == (1, False, False)
    assert read
    await bus.redis.xack(stream, "launcher", *await ids(bus, stream))
    assert (await launches(redis_server.url)).drained


async def test_dead_letters_are_counted_beside(redis_server: RedisServer, bus: Bus) -> None:
    await bus.redis.xadd(f"{bus.prefix}{streams.LAUNCHES}:dead", {"error": "no such field"})
    depth = await launches(redis_server.url)
    assert (depth.dead, depth.drained) == (1, True)


async def test_a_redis_that_does_not_answer_is_a_transient_error() -> None:
    with pytest.raises(TransientError):
        await queue_depths("redis://127.0.0.1:9/0", CLUSTER)


async def ids(bus: Bus, stream: str) -> list[Any]:
    entries: Any = await bus.redis.xrange(stream)
    return [entry[0] for entry in entries]
