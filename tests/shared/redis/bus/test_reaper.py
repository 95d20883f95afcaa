"""Watching the heartbeats of other consumers (F5, F6, F12)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from shared.redis.bus import Bus, Consumer, ConsumerSettings, Envelope, connect
from shared.redis.bus.reaper import PeerWatch
from tests.shared.redis.bus.conftest import Until
from tests.support.redis.work import settled


def test_a_peer_is_silent_after_an_unchanged_heartbeat_for_the_limit() -> None:
    """F12: measured on our own monotonic clock only."""
    watch = PeerWatch()
    assert watch.silent({"a": b"1", "b": b"1"}, now=0, limit=60) == set()
    assert watch.silent({"a": b"1", "b": b"2"}, now=59, limit=60) == set()
    assert watch.silent({"a": b"1", "b": b"2"}, now=60, limit=60) == {"a"}
    assert watch.silent({"a": b"2", "b": b"2"}, now=119, limit=60) == {"b"}


def test_a_peer_without_heartbeat_is_silent_after_the_limit() -> None:
    """A consumer that never showed life, or whose key expired."""
    watch = PeerWatch()
    assert watch.silent({"a": None}, now=5, limit=60) == set()
    assert watch.silent({"a": None}, now=65, limit=60) == {"a"}


def test_a_peer_that_left_is_forgotten() -> None:
    """The memory is bounded by the consumers that exist."""
    watch = PeerWatch()
    watch.silent({"a": b"1"}, now=0, limit=60)
    watch.silent({}, now=30, limit=60)
    assert watch.silent({"a": b"1"}, now=70, limit=60) == set()


async def test_reclaim_does_not_wait_for_the_idle_time_of_redis(
    bus: Bus,
    redis_url: str,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F12: after a backward clock jump XAUTOCLAIM stalls; a silent heartbeat is enough.

    The stalled clock is played by setting the idle time of the dead consumer's entry to 0 over and
    over; without the heartbeat watch nobody would ever take it over.
    """
    seen: list[str] = []
    redis = connect(redis_url)
    stream = f"{bus.prefix}launches"
    await redis.xgroup_create(stream, "g", id="0", mkstream=True)
    await bus.publish("launches", message("n1"))
    reply: Any = await redis.xreadgroup("g", "dead", {stream: ">"})
    ((_, ((id, _),)),) = reply

    async def handle(envelope: Envelope) -> None:
        seen.append(envelope.key)

    async def handled_while_idle_stays_zero() -> bool:
        await redis.execute_command("XCLAIM", stream, "g", "dead", 0, id, "JUSTID")
        return seen == ["n1"]

    consumer = bus.consumer(stream="launches", group="g", name="b", handler=handle, settings=quick)
    async with running(consumer):
        await until(handled_while_idle_stays_zero)
    await redis.aclose()


async def test_names_go_on_a_clean_stop_but_never_with_pending_entries(
    bus: Bus,
    redis_url: str,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
) -> None:
    """F6: XGROUP DELCONSUMER would discard what is pending."""
    settings = ConsumerSettings(block_milliseconds=50, finish_seconds=0.05)
    hung = asyncio.Event()

    handled: list[str] = []

    async def handle(envelope: Envelope) -> None:
        handled.append(envelope.key)
        if envelope.key == "hang":
            hung.set()
            await asyncio.Event().wait()

    async def names() -> set[bytes]:
        infos = await redis.execute_command("XINFO", "CONSUMERS", f"{bus.prefix}launches", "g")
        return {info[1] for info in infos}

    redis = connect(redis_url)
    await bus.publish("launches", message("quick"))
    clean = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=settings)
    async with running(clean):
        await until(lambda: settled(bus, "launches", "g", handled, 1))
    assert await names() == set()
    await bus.publish("launches", message("hang"))
    stuck = bus.consumer(stream="launches", group="g", name="b", handler=handle, settings=settings)
    async with running(stuck):
        await until(hung.is_set)
    assert await names() == {b"b"}
    assert (await bus.depth("launches")).groups["g"].pending == 1
    await redis.aclose()
