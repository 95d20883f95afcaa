"""Consumers that crash, hang, stop or lose their Redis: nothing is lost (F2-F13, F29)."""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.redis.bus import Bus, Consumer, ConsumerSettings, Envelope, connect
from shared.redis.bus.connection import call
from tests.shared.redis.bus.conftest import Until
from tests.support.redis.work import settled


async def test_entries_of_a_crashed_consumer_are_taken_over(
    bus: Bus,
    redis_url: str,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F5: crash before the acknowledgement means redelivery to somebody else."""
    seen: list[str] = []

    async def handle(envelope: Envelope) -> None:
        seen.append(envelope.key)

    for number in range(10):
        await bus.publish("launches", message(f"n{number}"))
    redis = connect(redis_url)
    stream = f"{bus.prefix}launches"
    await redis.xgroup_create(stream, "g", id="0")
    await redis.xreadgroup("g", "crashed", {stream: ">"}, count=10)
    consumer = bus.consumer(stream="launches", group="g", name="b", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: len(seen) == 10)
        await until(lambda: settled(bus, "launches", "g", seen, 10))
    await redis.aclose()


@pytest.mark.slow
async def test_a_slow_handler_is_not_robbed(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F5: entries in hand are renewed, so a living consumer keeps them beyond the idle time."""
    patient = replace(quick, min_idle_seconds=2.0)  # a busy machine may hold a heartbeat up
    runs: Counter[str] = Counter()

    async def handle(envelope: Envelope) -> None:
        runs[envelope.key] += 1
        await asyncio.sleep(1.5 * patient.min_idle_seconds)

    await bus.publish("launches", message("slow"))
    consumers = [
        bus.consumer(stream="launches", group="g", name=name, handler=handle, settings=patient)
        for name in "ab"
    ]
    async with running(*consumers):
        await until(lambda: settled(bus, "launches", "g", runs, 1))
    assert runs == {"slow": 1}


@pytest.mark.slow
async def test_a_cancelled_consumer_strands_nothing(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F7: cancelled again and again while messages arrive, every message is handled."""
    seen: Counter[str] = Counter()
    chance = random.Random(7)

    async def handle(envelope: Envelope) -> None:
        await asyncio.sleep(0)
        seen[envelope.key] += 1

    for turn in range(40):
        consumer = bus.consumer(
            stream="launches", group="g", name=f"c{turn}", handler=handle, settings=quick
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(consumer.run(asyncio.Event()))
            for number in range(10):
                await bus.publish("launches", message(f"t{turn}-{number}"))
            await asyncio.sleep(chance.uniform(0, 0.01))
            task.cancel()
    last = bus.consumer(stream="launches", group="g", name="last", handler=handle, settings=quick)
    async with running(last):
        await until(lambda: len(seen) == 400)

        async def settled() -> bool:
            return (await bus.depth("launches")).groups["g"].pending == 0

        await until(settled)


async def test_a_stop_does_not_wait_for_the_next_message(
    bus: Bus, running: Callable[[Consumer], Any], until: Until, quick: ConsumerSettings
) -> None:
    """F29: whoever takes over would wait as long for the Lease."""

    async def handle(envelope: Envelope) -> None:
        raise AssertionError(envelope)

    async def waits() -> bool:
        clients = await call(bus.redis, "list the connections", "CLIENT", "LIST")
        return b"cmd=xreadgroup" in clients

    patient = replace(quick, block_milliseconds=2500)
    consumer = bus.consumer(
        stream="launches", group="g", name="a", handler=handle, settings=patient
    )
    async with running(consumer):
        await until(waits)
        stopped = SystemClock().monotonic()
    assert SystemClock().monotonic() - stopped < 1.5


async def test_flushall_is_survived(
    bus: Bus,
    redis_url: str,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F9: groups are created again at 0, and new messages flow."""
    seen: set[str] = set()

    async def handle(envelope: Envelope) -> None:
        seen.add(envelope.key)

    redis = connect(redis_url)
    consumer = bus.consumer(
        stream="launches",
        group="g",
        name="a",
        handler=handle,
        settings=quick,
    )
    async with running(consumer):
        for turn in range(1, 4):
            await bus.publish("launches", message(f"before{turn}"))
            await until(partial(seen.__contains__, f"before{turn}"))
            await redis.flushall()
            await bus.publish("launches", message(f"after{turn}"))
            await until(partial(seen.__contains__, f"after{turn}"))
    await redis.aclose()


async def test_stop_hands_unfinished_messages_to_the_others(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F29: after SIGTERM what cannot finish in time is claimable at once, the name disappears."""
    blocked = asyncio.Event()
    taken: list[str] = []

    async def hang(envelope: Envelope) -> None:
        blocked.set()
        await asyncio.Event().wait()

    async def handle(envelope: Envelope) -> None:
        taken.append(envelope.key)

    patient = ConsumerSettings(
        block_milliseconds=50, reap_seconds=0.05, finish_seconds=0.05, min_idle_seconds=600
    )
    await bus.publish("launches", message("n1"))
    first = bus.consumer(stream="launches", group="g", name="a", handler=hang, settings=patient)
    async with running(first):
        await until(blocked.is_set)
    second = bus.consumer(stream="launches", group="g", name="b", handler=handle, settings=patient)
    async with running(second):
        await until(lambda: taken == ["n1"])


async def test_stop_lets_running_handlers_finish(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F29: in-flight work ends properly and is acknowledged."""
    patient = replace(quick, finish_seconds=60.0)
    started, finished = asyncio.Event(), asyncio.Event()

    async def handle(envelope: Envelope) -> None:
        started.set()
        await asyncio.sleep(0.1)
        finished.set()

    await bus.publish("launches", message("n1"))
    consumer = bus.consumer(
        stream="launches", group="g", name="a", handler=handle, settings=patient
    )
    async with running(consumer):
        await until(started.is_set)
    assert finished.is_set()
    assert (await bus.depth("launches")).groups["g"].pending == 0


async def test_entries_deleted_while_pending_do_not_dangle(
    bus: Bus,
    redis_url: str,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F11: a foreign XTRIM leaves ids without bodies; they are dropped and counted (6.2 and 7)."""

    async def handle(envelope: Envelope) -> None:
        return

    for number in range(5):
        await bus.publish("launches", message(f"n{number}"))
    redis = connect(redis_url)
    stream = f"{bus.prefix}launches"
    await redis.xgroup_create(stream, "g", id="0")
    await redis.xreadgroup("g", "crashed", {stream: ">"}, count=5)
    await redis.xtrim(stream, maxlen=2, approximate=False)
    consumer = bus.consumer(stream="launches", group="g", name="b", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: settled(bus, "launches", "g", (), 0))
    await redis.aclose()


async def test_a_consumer_started_without_redis_connects_when_it_can(
    message: Callable[..., Envelope], until: Until, quick: ConsumerSettings
) -> None:
    """Reliability R2: Redis down is a delay, never an end."""
    attempts = 0

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()
        await writer.wait_closed()

    nobody = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = nobody.sockets[0].getsockname()[1]
    url = f"redis://127.0.0.1:{port}/0"
    bus = Bus(url, "c", clock=SystemClock(), random=random.Random(1))

    async def handle(envelope: Envelope) -> None:
        return

    consumer = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=quick)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(consumer.run(stop))
        await until(lambda: attempts >= 3)
        assert not task.done()
        assert not consumer.connected
        stop.set()
    await bus.close()
    nobody.close()
    await nobody.wait_closed()


async def test_due_retries_are_moved_as_soon_as_redis_takes_them_again(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """A refusal is answered by another attempt, not by the usual pause, which is far longer than this test."""
    seen: list[str] = []

    async def handle(envelope: Envelope) -> None:
        seen.append(envelope.key)

    async def refused() -> bool:
        stats = bytes(await call(bus.redis, "look", "INFO", "commandstats"))
        return re.search(rb"cmdstat_evalsha:.*failed_calls=[1-9]", stats) is not None

    patient = replace(quick, move_seconds=600.0, trim_seconds=600.0)
    consumer = bus.consumer(
        stream="launches", group="g", name="a", handler=handle, settings=patient
    )
    await consumer.delays.put(message("n1"), 0.0)
    await bus.redis.config_resetstat()
    await bus.redis.config_set("maxmemory", "1")
    try:
        async with running(consumer):
            await until(refused)
            await bus.redis.config_set("maxmemory", "0")
            await until(lambda: seen == ["n1"])
    finally:
        await bus.redis.config_set("maxmemory", "0")
