"""Events are de-duplicated between the services (EVT-03)."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from redis.asyncio import Redis

from shared.concurrency.clock import SystemClock
from shared.kube.recorder import Recorder
from shared.redis.bus import connect
from shared.redis.mirror.seen_events import SharedSeenEvents

NODE = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u2"}


class Written:
    """Where a recorder writes to."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def create(self, resource: Any, body: Any, namespace: str) -> None:
        del resource, namespace
        self.reasons.append(body["reason"])


async def write(server: Written, seen: SharedSeenEvents, *reasons: str) -> None:
    """One service that tells these about a node, and ends."""
    events = Recorder(server, clock=SystemClock(), random=Random(1))  # type: ignore[arg-type]
    events.seen = seen
    for reason in reasons:
        await events.publish(NODE, "Warning", reason, "text")
    stop = asyncio.Event()
    stop.set()
    await events.run(stop)


async def test_of_five_services_one_writes_an_event(redis: Redis, prefix: str) -> None:
    server = Written()
    for _ in range(5):
        await write(server, SharedSeenEvents(redis, prefix), "SpotInterrupted", "FailedDraining")
    assert sorted(server.reasons) == ["FailedDraining", "SpotInterrupted"]


async def test_who_has_seen_an_event_is_asked_without_claiming_it(
    redis: Redis, prefix: str
) -> None:
    seen = SharedSeenEvents(redis, prefix)
    assert not await seen.has("a")
    assert await seen.first("a", 120)
    assert await seen.has("a")
    assert not await SharedSeenEvents(redis, f"{prefix}two:").has("a")


async def test_a_key_runs_out(redis: Redis, prefix: str) -> None:
    """EVT-01: Redis forgets by itself, so nothing has to be cleared away."""
    seen = SharedSeenEvents(redis, prefix)
    assert await seen.first("a", 120)
    assert not await seen.first("a", 120)
    assert 119_000 < await redis.pttl(f"{prefix}event:a") <= 120_000
    assert await seen.first("a", 0)


async def test_another_cluster_has_its_own(redis: Redis, prefix: str) -> None:
    assert await SharedSeenEvents(redis, f"{prefix}one:").first("a", 120)
    assert await SharedSeenEvents(redis, f"{prefix}two:").first("a", 120)


async def test_without_redis_events_are_written_all_the_same(prefix: str) -> None:
    """Two copies are better than none."""
    nowhere = connect("redis://127.0.0.1:9/0")
    server = Written()
    await write(server, SharedSeenEvents(nowhere, prefix), "SpotInterrupted")
    await nowhere.aclose()
    assert server.reasons == ["SpotInterrupted"]
