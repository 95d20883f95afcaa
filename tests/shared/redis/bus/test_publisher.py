"""Publishing on a real Redis: once per fact, bounded, honest about failures (F8, F10)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.errors import InvalidObject, Unavailable, Unreachable
from shared.redis.bus import Bus, Consumer, ConsumerSettings, Envelope, connect
from shared.redis.bus.envelope import BODY_LIMIT_BYTES
from tests.shared.redis.bus.conftest import Until
from tests.support.network.fault_proxy import FaultProxy
from tests.support.redis.server import RedisServer
from tests.support.redis.work import settled


async def test_the_same_id_rings_once(bus: Bus, message: Callable[..., Envelope]) -> None:
    """F8: a repeat within a minute adds nothing and says so."""
    assert await bus.publish("launches", message("n1")) is True
    assert await bus.publish("launches", message("n1")) is False
    assert await bus.publish("terminations", message("n1")) is True
    assert (await bus.depth("launches")).length == 1


async def test_a_body_over_the_limit_is_refused(bus: Bus, message: Callable[..., Envelope]) -> None:
    """docs/spec/design.md: at most 64 KiB."""
    await bus.publish("launches", message("fits", body=b"x" * BODY_LIMIT_BYTES))
    with pytest.raises(InvalidObject, match="body: 65537 bytes"):
        await bus.publish("launches", message("large", body=b"x" * (BODY_LIMIT_BYTES + 1)))
    assert (await bus.depth("launches")).length == 1


async def test_a_full_stream_is_not_rung(
    redis_url: str, cluster: str, message: Callable[..., Envelope]
) -> None:
    """F10: above the mark the publisher stops; entries that no group has read stay."""
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=random.Random(1), stream_limit=10)
    redis = connect(redis_url)
    await redis.xgroup_create(f"{bus.prefix}launches", "g", id="0", mkstream=True)
    for number in range(10):
        await bus.publish("launches", message(f"n{number}"))
    with pytest.raises(Unavailable, match="launches holds 10 entries"):
        await bus.publish("launches", message("n10"))
    assert (await bus.depth("launches")).length == 10
    await redis.aclose()
    await bus.close()


async def test_a_full_stream_that_was_read_makes_room_by_itself(
    redis_url: str, cluster: str, message: Callable[..., Envelope]
) -> None:
    """At the mark the publisher trims what all groups have acknowledged."""
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=random.Random(1), stream_limit=10)
    redis = connect(redis_url)
    stream = f"{bus.prefix}launches"
    await redis.xgroup_create(stream, "g", id="0", mkstream=True)
    for number in range(10):
        await bus.publish("launches", message(f"n{number}"))
    await redis.xreadgroup("g", "c", {stream: ">"}, count=10, noack=True)
    assert await bus.publish("launches", message("n10")) is True
    assert (await bus.depth("launches")).length == 2
    await redis.aclose()
    await bus.close()


async def test_a_stream_that_nobody_reads_stays_bounded(
    redis_url: str, cluster: str, message: Callable[..., Envelope]
) -> None:
    """Its group was never made, or is gone: the oldest entries go."""
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=random.Random(1), stream_limit=10)
    for number in range(100):
        assert await bus.publish("machines", message(f"n{number}"))
        assert (await bus.depth("machines")).length <= 10
    await bus.close()


async def test_a_full_redis_is_unavailable_and_forgets_nothing(
    bus: Bus, redis_url: str, message: Callable[..., Envelope]
) -> None:
    """F10: under OOM nothing is written, and the id is not remembered as published."""
    redis = connect(redis_url)
    await redis.config_set("maxmemory", "100kb")  # less than an empty server uses
    try:
        with pytest.raises(Unavailable):
            await bus.publish("launches", message("n1"))
    finally:
        await redis.config_set("maxmemory", "0")
    assert await bus.publish("launches", message("n1")) is True
    await redis.aclose()


async def test_nobody_there_is_unreachable(message: Callable[..., Envelope]) -> None:
    """Reliability R6: no answer is an unknown outcome."""
    bus = Bus("redis://127.0.0.1:1/0", "c", clock=SystemClock(), random=random.Random(1))
    with pytest.raises(Unreachable):
        await bus.publish("launches", message("n1"))
    await bus.close()


async def test_lost_replies_neither_lose_nor_double_a_message(
    bus: Bus,
    redis_server: RedisServer,
    cluster: str,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F8: publish and consume through a proxy that loses 10 % of all replies."""
    direct = bus
    effects: list[str] = []

    async def handle(envelope: Envelope) -> None:
        effects.append(envelope.id)

    async with FaultProxy(redis_server.port, loss=0.1, seed=5) as proxy:
        bus = Bus(proxy.url, cluster, clock=SystemClock(), random=random.Random(5))
        ids = [f"n{number}" for number in range(200)]
        for id in ids:
            await _publish_until_known(bus, message(id, id=id))
        consumer = bus.consumer(
            stream="launches", group="g", name="a", handler=handle, settings=quick
        )
        async with running(consumer):
            await until(lambda: settled(direct, "launches", "g", effects, 200))
        assert proxy.cuts > 20
        await bus.close()
    assert sorted(effects) == sorted(ids)


async def _publish_until_known(bus: Bus, envelope: Envelope) -> None:
    """What a resync amounts to: publish the same fact until Redis has answered."""
    for _ in range(50):
        try:
            await bus.publish("launches", envelope)
        except Unreachable:
            continue
        return
    raise AssertionError("no publish was answered")


async def test_many_are_published_in_order_and_once(
    bus: Bus, message: Callable[..., Envelope]
) -> None:
    """More than one round trip holds; a repeat of all of them adds nothing."""
    rings = [("launches" if number % 3 else "pods", message(f"n{number}")) for number in range(250)]
    assert await bus.publish_all(rings) == []
    assert await bus.publish_all(rings) == []
    assert await bus.publish_all([]) == []
    assert (await bus.depth("launches")).length == 166
    assert (await bus.depth("pods")).length == 84
    entries = await bus.redis.execute_command("XRANGE", f"{bus.prefix}pods", "-", "+")
    ids = [dict(zip(fields[::2], fields[1::2], strict=True))[b"id"] for _, fields in entries]
    assert ids == [envelope.id.encode() for stream, envelope in rings if stream == "pods"]


async def test_what_is_refused_among_many_does_not_stop_the_others(
    redis_url: str, cluster: str, message: Callable[..., Envelope]
) -> None:
    """A full stream, and a body over the limit."""
    bus = Bus(redis_url, cluster, clock=SystemClock(), random=random.Random(1), stream_limit=2)
    await bus.redis.xgroup_create(f"{bus.prefix}launches", "g", id="0", mkstream=True)
    rings = [("launches", message(f"n{number}")) for number in range(3)]
    rings.append(("pods", message("large", body=b"x" * (BODY_LIMIT_BYTES + 1))))
    rings.append(("pods", message("fits")))
    full, large = await bus.publish_all(rings)
    assert isinstance(full, Unavailable)
    assert isinstance(large, InvalidObject)
    assert (await bus.depth("launches")).length == 2
    assert (await bus.depth("pods")).length == 1
    await bus.close()


async def test_many_without_an_answer_may_be_sent_again(
    redis_url: str, cluster: str, message: Callable[..., Envelope]
) -> None:
    """F8: nobody knows what arrived; the repeat adds only what did not."""
    rings = [("launches", message(f"n{number}")) for number in range(20)]
    port = int(redis_url.rpartition(":")[2].split("/")[0])
    async with FaultProxy(port, loss=0.0, seed=1) as proxy:
        bus = Bus(proxy.url, cluster, clock=SystemClock(), random=random.Random(1))
        await bus.publish_all(rings[:5])
        proxy.loss = 1.0
        with pytest.raises(Unreachable):
            await bus.publish_all(rings)
        proxy.loss = 0.0
        assert await bus.publish_all(rings) == []
        assert (await bus.depth("launches")).length == 20
        await bus.close()
