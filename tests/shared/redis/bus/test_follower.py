"""Following streams without a group: every message is seen, and the group that consumes them misses none."""

from __future__ import annotations

import asyncio

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus, Envelope, RetryLater
from shared.redis.bus.connection import call
from shared.redis.bus.follower import Follower
from tests.support.waiting import wait_until

CLOCK = SystemClock()


def message(number: int) -> Envelope:
    return Envelope(id=f"m{number}", type="Test", key=f"k{number}", body=b"{}", at=CLOCK.now())


async def test_every_message_of_all_streams_is_seen_also_after_one_that_is_refused(
    bus: Bus, redis_url: str
) -> None:
    seen: list[str] = []

    async def note(envelope: Envelope) -> None:
        seen.append(envelope.id)
        if envelope.id == "m1":
            raise RetryLater(1.0)

    handlers = {"one": note, "two": note}
    follower = Follower(redis_url, bus.prefix, handlers, CLOCK, block_milliseconds=20)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(follower.run(stop))
        await wait_until(lambda: follower.positions, "the first read")
        await bus.publish("one", message(1))
        await bus.publish("two", message(2))
        await call(bus.redis, "spoil", "XADD", f"{bus.prefix}one", "*", "nonsense", "1")
        await bus.publish("one", message(3))
        await wait_until(lambda: len(seen) == 3, "all messages")
        stop.set()
    assert sorted(seen) == ["m1", "m2", "m3"]
    assert await call(bus.redis, "groups", "XINFO", "GROUPS", f"{bus.prefix}one") == []
