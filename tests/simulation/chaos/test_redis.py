"""Chaos' own way to a real Redis: what promises read, and orders that no caller waits for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from local.stack import Stack
from simulation.chaos.processes import RealProcess
from simulation.chaos.redis import RealRedis
from simulation.chaos.ways.proxy import Proxy
from tests.support.redis.fixture import cluster, redis_server, redis_url
from tests.support.waiting import wait_until

__all__ = ["cluster", "redis_server", "redis_url"]


@pytest.fixture
async def redis(redis_url: str, tmp_path: Path) -> AsyncIterator[RealRedis]:
    """An empty one."""
    proxy = Proxy(int(urlsplit(redis_url).port or 0), {}, Random(1))
    await proxy.start()
    made = RealRedis(RealProcess(Stack(tmp_path), "redis"), redis_url, proxy)
    made.execute("FLUSHALL")
    yield made
    made.execute("FLUSHALL")
    made.close()
    await proxy.close()


def test_what_is_stored_is_read(redis: RealRedis) -> None:
    redis.execute("SET", "a:text", "1")
    redis.execute("HSET", "a:hash", "field", "2")
    redis.execute("ZADD", "b:set", 3, "member")
    assert redis.get("a:text") == b"1"
    assert redis.hash("a:hash") == {b"field": b"2"}
    assert redis.members("b:set") == {b"member": 3.0}
    assert redis.keys("a:") == ["a:hash", "a:text"]
    assert redis.keys() == ["a:hash", "a:text", "b:set"]


def test_entries_are_unread_then_pending_then_settled(redis: RealRedis) -> None:
    redis.execute("XGROUP", "CREATE", "s", "readers", "0", "MKSTREAM")
    redis.execute("XADD", "s", "1-1", "f", "v")
    redis.execute("XADD", "s", "1-2", "f", "v")
    assert (redis.length("s"), redis.unread("s", "readers")) == (2, 2)
    redis.execute("XREADGROUP", "GROUP", "readers", "me", "COUNT", 1, "STREAMS", "s", ">")
    assert (redis.unread("s", "readers"), len(redis.pending("s", "readers"))) == (1, 1)
    redis.execute("XACK", "s", "readers", "1-1")
    assert redis.pending("s", "readers") == []


def test_without_stream_or_group_nothing_is_read(redis: RealRedis) -> None:
    assert redis.groups("s") == []
    assert redis.pending("s", "readers") == []
    assert redis.unread("s", "readers") == 0
    redis.execute("XADD", "s", "1-1", "f", "v")
    assert redis.unread("s", "readers") == 1


async def test_orders_are_carried_out_one_after_the_other(redis: RealRedis) -> None:
    redis.execute("SET", "a", "1")
    redis.flush()
    redis.set_out_of_memory(True)
    await wait_until(lambda: redis.execute("CONFIG", "GET", "maxmemory")[1] == b"1", "it is full")
    assert redis.keys() == []
    redis.set_out_of_memory(False)
    await wait_until(lambda: redis.execute("CONFIG", "GET", "maxmemory")[1] == b"0", "it has room")
