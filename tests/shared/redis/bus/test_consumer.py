"""The consumer on a real Redis: every message is handled, one that cannot be blocks nobody (F2-F13)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError
from shared.redis.bus import (
    BadMessage,
    Bus,
    Consumer,
    ConsumerSettings,
    Envelope,
    RetryLater,
    connect,
)
from tests.shared.redis.bus.conftest import Until
from tests.support.redis.work import is_parked, settled


async def test_every_message_is_handled_and_acknowledged(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """The plain case: 500 messages, each handled once, nothing pending."""
    seen: Counter[str] = Counter()

    async def handle(envelope: Envelope) -> None:
        seen[envelope.key] += 1

    for number in range(500):
        await bus.publish("launches", message(f"n{number}"))
    consumer = bus.consumer(
        stream="launches", group="launcher", name="a", handler=handle, settings=quick
    )
    async with running(consumer):
        await until(lambda: settled(bus, "launches", "launcher", seen, 500))
    assert set(seen.values()) == {1}
    assert len(seen) == 500
    assert (await bus.depth("launches")).groups["launcher"].pending == 0
    assert await bus.waiting("launches", "launcher") == 0
    assert await bus.waiting("launches", "nobody") == await bus.waiting("nothing", "g") == 0


async def test_each_group_gets_every_message(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """Groups are created at 0, so entries from before a group's start count (docs/spec/design.md)."""
    seen: Counter[str] = Counter()

    def handler(group: str) -> Any:
        async def handle(envelope: Envelope) -> None:
            seen[group] += 1

        return handle

    for number in range(20):
        await bus.publish("machines", message(f"n{number}"))
    consumers = [
        bus.consumer(
            stream="machines", group=group, name="a", handler=handler(group), settings=quick
        )
        for group in ("scheduler", "launcher")
    ]
    async with running(*consumers):
        await until(lambda: seen == {"scheduler": 20, "launcher": 20})


async def test_messages_about_one_key_never_overlap(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """Per-key order inside a process (reliability 5.3)."""
    active: Counter[str] = Counter()
    order: list[str] = []
    overlaps = 0

    async def handle(envelope: Envelope) -> None:
        nonlocal overlaps
        active[envelope.key] += 1
        overlaps += active[envelope.key] > 1
        await asyncio.sleep(0.001)
        active[envelope.key] -= 1
        order.append(envelope.id)

    ids = [f"k{key}-{number:02}" for number in range(10) for key in range(4)]
    for id in ids:
        await bus.publish("launches", message(id.split("-")[0], id=id))
    consumer = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: len(order) == len(ids))
    assert overlaps == 0
    for key in range(4):
        of_key = [id for id in order if id.startswith(f"k{key}-")]
        assert of_key == sorted(of_key)


async def test_no_more_messages_are_taken_than_there_are_slots(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """Back-pressure: read only as much as is free."""
    gate = asyncio.Event()
    started: list[str] = []

    async def handle(envelope: Envelope) -> None:
        started.append(envelope.key)
        await gate.wait()

    for number in range(30):
        await bus.publish("launches", message(f"n{number}"))
    consumer = bus.consumer(
        stream="launches", group="g", name="a", handler=handle, limit=4, settings=quick
    )
    async with running(consumer):
        await until(lambda: len(started) == 4)
        turns = consumer.last_progress
        await until(lambda: consumer.last_progress > turns + 0.1)
        assert len(started) == 4
        depth = (await bus.depth("launches")).groups["g"]
        assert depth.pending == 4
        unread_is_known = depth.lag is not None  # Redis 6.2 cannot tell
        assert await bus.waiting("launches", "g") == (30 if unread_is_known else 4)
        gate.set()
        await until(lambda: len(started) == 30)


@pytest.mark.slow
async def test_a_failing_message_is_parked_after_five_deliveries_and_blocks_nobody(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F4: five tries, then a dead letter; its neighbours go on."""
    tries: Counter[str] = Counter()

    async def handle(envelope: Envelope) -> None:
        tries[envelope.key] += 1
        if envelope.key == "poison":
            raise ValueError("cannot digest")

    await bus.publish("launches", message("poison"))
    for number in range(50):
        await bus.publish("launches", message(f"n{number}"))
    consumer = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: sum(tries.values()) - tries["poison"] == 50)
        assert tries["poison"] < 5
        await until(lambda: is_parked(bus, "launches"))
    (letter,) = await bus.dead_letters("launches").newest(9)
    assert tries["poison"] == 5
    assert letter.envelope is not None
    assert letter.envelope.key == "poison"
    assert letter.deliveries == 5
    assert letter.error == "ValueError: cannot digest"
    assert (await bus.depth("launches")).dead == 1
    assert (await bus.depth("launches")).groups["g"].pending == 0


@pytest.mark.parametrize("fields", [{"junk": "1"}, {"id": "x", "body": b"\xff"}])
async def test_an_unreadable_entry_is_parked_at_first_sight(
    bus: Bus,
    redis_url: str,
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
    fields: dict[Any, Any],
) -> None:
    """F4: what is no envelope never reaches a handler."""

    async def handle(envelope: Envelope) -> None:
        raise AssertionError("must not be called")

    redis = connect(redis_url)
    await redis.xadd(f"{bus.prefix}launches", fields)
    consumer = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: is_parked(bus, "launches"))
    (letter,) = await bus.dead_letters("launches").newest(9)
    assert letter.envelope is None
    assert letter.deliveries == 1
    await redis.aclose()


async def test_bad_message_is_parked_at_once_and_can_be_replayed(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """An operator replays a dead letter for the group that gave up on it."""
    broken = True
    handled: list[str] = []

    async def handle(envelope: Envelope) -> None:
        if broken:
            raise BadMessage("no such field")
        handled.append(envelope.key)

    await bus.publish("launches", message("n1"))
    consumer = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: is_parked(bus, "launches"))
        broken = False
        (letter,) = await bus.dead_letters("launches").newest(9)
        await bus.dead_letters("launches").replay(letter.id)
        await until(lambda: handled == ["n1"])
    assert await bus.dead_letters("launches").newest(9) == []


async def test_retry_later_comes_back_after_its_delay_for_that_group_only(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """Reliability 5.3: delay, then acknowledge; the other group is not bothered."""
    clock = SystemClock()
    times: list[float] = []
    attempts: list[int] = []
    others: list[str] = []

    async def handle(envelope: Envelope) -> None:
        times.append(clock.monotonic())
        attempts.append(envelope.attempt)
        if envelope.attempt < 2:
            raise RetryLater(0.1)

    async def other(envelope: Envelope) -> None:
        others.append(envelope.key)

    await bus.publish("machines", message("n1"))
    consumers = [
        bus.consumer(stream="machines", group="g", name="a", handler=handle, settings=quick),
        bus.consumer(stream="machines", group="other", name="a", handler=other, settings=quick),
    ]
    async with running(*consumers):
        await until(lambda: len(attempts) == 3)
        await until(lambda: settled(bus, "machines", "g", attempts, 3))
        await until(lambda: settled(bus, "machines", "other", others, 1))
    assert attempts == [0, 1, 2]
    assert all(later - earlier >= 0.099 for earlier, later in pairwise(times))
    assert others == ["n1"]


async def test_a_message_of_a_newer_version_is_put_off(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """F30: not counted as a failure, not handled."""

    async def handle(envelope: Envelope) -> None:
        raise AssertionError("must not be called")

    await bus.publish("launches", message("n1", version=2))
    consumer = bus.consumer(stream="launches", group="g", name="a", handler=handle, settings=quick)
    async with running(consumer):
        await until(lambda: bus.redis.zcard(f"{bus.prefix}delay:launches"))
    assert (await bus.depth("launches")).dead == 0


async def test_a_handler_over_its_time_limit_is_ended(
    bus: Bus,
    message: Callable[..., Envelope],
    running: Callable[[Consumer], Any],
    until: Until,
    quick: ConsumerSettings,
) -> None:
    """Every await has a bound: the message stays pending and is delivered again."""
    tries = 0

    async def handle(envelope: Envelope) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            await asyncio.Event().wait()

    await bus.publish("launches", message("n1"))
    consumer = bus.consumer(
        stream="launches",
        group="g",
        name="a",
        handler=handle,
        handler_timeout_seconds=0.05,
        settings=quick,
    )
    async with running(consumer):
        await until(lambda: tries == 2)
        await until(lambda: settled(bus, "launches", "g", (), 0))
    assert tries == 2


@pytest.mark.parametrize("seconds", [10.0, 15.0, 60.0])
def test_every_time_that_the_setting_allows_leaves_room_for_two_heartbeats(seconds: float) -> None:
    settings = ConsumerSettings.idle_for(seconds)
    assert settings.min_idle_seconds == seconds
    assert 5 <= settings.heartbeat_seconds <= 10


def test_less_than_ten_seconds_without_a_heartbeat_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most half of min_idle_seconds"):
        ConsumerSettings.idle_for(9)


def test_a_heartbeat_slower_than_the_idle_time_is_refused() -> None:
    """A consumer that renews too late would be robbed of its work."""
    with pytest.raises(ConfigurationError, match="heartbeat_seconds"):
        ConsumerSettings(min_idle_seconds=5, heartbeat_seconds=5)
