"""What each service does in Redis, by the objects that it does it with."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from contextlib import asynccontextmanager
from dataclasses import replace

from services.terminator.waiting.changes import MirrorChanges
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import encode_catalogue
from shared.redis import streams
from shared.redis.bus import Bus, Consumer, ConsumerSettings, Envelope, RetryLater
from shared.redis.bus.envelope import Handler
from shared.redis.mirror import Change, MirrorReader, MirrorWriter
from shared.redis.mirror.catalogue.learned_ram import LearnedMemory
from shared.redis.mirror.catalogue.offerings import CatalogueStore, UnavailableOfferings
from shared.redis.mirror.catalogue.reservations import ReservationStore
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.redis.mirror.pools.disruption_rate import DisruptionRate
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.redis.mirror.seen_events import SharedSeenEvents
from shared.redis.mirror.template_use import TemplateUse
from shared.redis.rights import AGENT
from shared.settings import LauncherSettings, read
from tests.support.planning.builders import make_catalogue, make_node_class
from tests.support.redis.guarded import CLUSTER
from tests.support.waiting import wait_until

CLOCK = SystemClock()
OFFERING = ("m5.large", "us-west-2a", "spot")
POOL = "NodePool/default"
QUICK = ConsumerSettings(
    block_milliseconds=50,
    min_idle_seconds=0.3,
    reap_seconds=0.05,
    heartbeat_seconds=0.1,
    move_seconds=0.02,
    trim_seconds=0.05,
    finish_seconds=0.2,
)


@asynccontextmanager
async def bus_at(url: str) -> AsyncIterator[Bus]:
    """Connect as a service does."""
    bus = Bus(url, CLUSTER, clock=CLOCK, random=random.Random(1))
    await bus.start()
    try:
        yield bus
    finally:
        await bus.close()


async def work_of(service: str, url: str) -> None:
    """Run every Redis operation of the service. Raises Unauthorized if a right is missing."""
    async with bus_at(url) as bus:
        events = SharedSeenEvents(bus.redis, bus.prefix)
        await events.first("a", 60.0)
        await events.has("a")
        spoken = "interruption" if service == AGENT else service
        for stream, who in streams.PUBLISHERS.items():
            if spoken in who:
                await bus.publish(stream, envelope(f"{service}-{stream}"))
                assert await bus.publish_all([(stream, envelope(f"{service}-{stream}"))]) == []
                await crowded(url, stream)
        for stream, groups in streams.GROUPS.items():
            if service in groups:
                await consume(bus, stream, service)
        await _OWN[service](bus, url)


def envelope(key: str) -> Envelope:
    """A message with a new id."""
    number = f"{random.getrandbits(64):016x}"
    return Envelope(id=number, type="LaunchMachine", key=key, body=b"{}", at=1.0)


async def crowded(url: str, stream: str) -> None:
    """Publish at the high-water mark, so that the publisher trims the stream."""
    bus = Bus(url, CLUSTER, clock=CLOCK, random=random.Random(1), stream_limit=1)
    try:
        await bus.publish(stream, envelope("one-more"))
    except Exception as error:
        if "entries that a group has not read" not in str(error):
            raise
    finally:
        await bus.close()


async def consume(bus: Bus, stream: str, group: str) -> None:
    """A message that succeeds at the second try, one that is buried, and one taken over from a consumer that died."""
    handled: list[str] = []

    async def handler(envelope: Envelope) -> None:
        handled.append(envelope.key)
        if envelope.key.startswith("later") and envelope.attempt == 0:
            raise RetryLater(0.01, "not yet")
        if envelope.key.startswith("bad"):
            raise ValueError(envelope.key)

    async def all_settled() -> bool:
        return handled.count(bad) >= 2 and await bus.waiting(stream, group) == 0

    consumer = _consumer(bus, stream, group, "first", handler)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consumer.run(stop))
        await wait_until(lambda: consumer.connected, "the consumer reads")
        second = _consumer(bus, stream, group, "second", handler)
        tasks.create_task(second.run(stop))
        later, bad = (f"{kind}-{random.getrandbits(32):x}" for kind in ("later", "bad"))
        await add(bus, stream, later)
        await add(bus, stream, bad)
        await wait_until(lambda: handled.count(later) >= 2, "the message comes again")
        await wait_until(all_settled, "the bad message is a dead letter and acknowledged")
        assert await bus.dead_letters(stream).count() > 0
        stop.set()


async def add(bus: Bus, stream: str, key: str) -> None:
    """As the delayed retry puts a message back: every consumer may."""
    fields = envelope(key).encode()
    await bus.redis.xadd(f"{bus.prefix}{stream}", fields)  # type: ignore[arg-type]


def _consumer(bus: Bus, stream: str, group: str, name: str, handler: Handler) -> Consumer:
    settings = replace(QUICK, attempts=replace(QUICK.attempts, deliveries=2))
    return bus.consumer(stream=stream, group=group, name=name, handler=handler, settings=settings)


async def _watcher(bus: Bus, _url: str) -> None:
    writer = MirrorWriter(bus.redis, bus.prefix, "epoch")
    await writer.begin({"pods": {"a/b": b"1"}, "nodes": {}})
    await writer.apply([Change("pods", "a/c", b"2"), Change("pods", "a/b", None)])
    await writer.heartbeat()
    for stream in streams.GROUPS:
        await bus.trim(stream)
    assert (await bus.memory()).used > 0
    outcomes = RegistrationOutcomes(bus.redis, bus.prefix)
    await outcomes.recent([POOL])
    await outcomes.forget(POOL)


async def _scheduler(bus: Bus, url: str) -> None:
    await follow(url)
    await CatalogueStore(bus.redis, bus.prefix).get()
    await ReservationStore(bus.redis, bus.prefix).get([make_node_class()])
    await UnavailableOfferings(bus.redis, bus.prefix).current()
    history = _history(bus)
    await history.current()
    await history.restore({history.numbers()[-1]: {":".join(OFFERING): 1}})
    await history.share({OFFERING: 1.0})
    assert await history.counts()
    rate = DisruptionRate(bus.redis, bus.prefix)
    await rate.spend(POOL, ["u1"])
    await rate.spent()


async def _launcher(bus: Bus, _url: str) -> None:
    store, catalogue = CatalogueStore(bus.redis, bus.prefix), make_catalogue()
    await store.put(encode_catalogue(catalogue), catalogue.generation, b"prices")
    await store.get()
    await store.prices()
    reservations, node_class = ReservationStore(bus.redis, bus.prefix), make_node_class()
    await reservations.put(node_class, [])
    await reservations.get([node_class])
    memory = LearnedMemory(bus.redis, bus.prefix)
    await memory.write({"m5.large ami-1": (7, 1.0)})
    await memory.read()
    await memory.drop(["m5.large ami-1"])
    use = TemplateUse(bus.redis, bus.prefix)
    await use.record("one")
    await use.is_recent("one")
    zones = ShiftedZones(bus.redis, bus.prefix, CLOCK)
    await zones.put(["us-west-2a"])
    await zones.current()
    await _mark_offerings(bus)
    backoff = LaunchBackoff(bus.redis, bus.prefix)
    await backoff.admit(POOL, "u1")
    await _health(bus)


async def _terminator(bus: Bus, _url: str) -> None:
    await ShiftedZones(bus.redis, bus.prefix, CLOCK).current()
    changes = MirrorChanges(bus, CLOCK)
    await changes.begin()
    await changes.read()
    await _health(bus)


async def _health(bus: Bus) -> None:
    """``shared.redis.mirror.pools.pool_health`` asks for no more."""
    backoff = LaunchBackoff(bus.redis, bus.prefix)
    for machine in ("u1", "u2", "u3"):
        await backoff.failed(POOL, "template", machine)
    await backoff.succeeded(POOL)
    await RegistrationOutcomes(bus.redis, bus.prefix).record(POOL, "u1", good=True)


async def _interruption(bus: Bus, url: str) -> None:
    await follow(url)
    await _mark_offerings(bus)
    letters = bus.dead_letters(streams.INTERRUPTIONS)
    await letters.add(
        source="sqs/1", group="interruption", fields={b"body": b"?", b"key": b"k"}, deliveries=1,
        error=ValueError("no JSON"), once="1/a",
    )  # fmt: skip


async def _mark_offerings(bus: Bus) -> None:
    offerings = UnavailableOfferings(bus.redis, bus.prefix)
    await offerings.add([OFFERING], seconds=60.0)
    await offerings.current()
    history = _history(bus)
    await history.add([OFFERING])
    assert await history.scores()  # it logs a refusal, and raises none


def _history(bus: Bus) -> ShortageHistory:
    return ShortageHistory(
        bus.redis,
        bus.prefix,
        CLOCK,
        read(
            LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2", shortage_store="/shared"
        ),
    )


async def follow(url: str) -> None:
    """Load the mirror and read what comes, both with all kinds and with some."""
    for kinds in (None, {"pods"}):
        reader = MirrorReader(
            url, f"dovetail:{{{CLUSTER}}}:", clock=CLOCK, kinds=kinds, block_milliseconds=20
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(reader.run(stop))
            await wait_until(lambda: reader.complete and reader.connected, "the mirror is loaded")  # noqa: B023
            before = reader.last_progress
            await wait_until(lambda: reader.last_progress > before, "the reader goes on")  # noqa: B023
            stop.set()
    async with bus_at(url) as bus:  # as a reader does that found foreign entries
        await bus.redis.set(f"{bus.prefix}mirror:heal", "1", ex=60)


_OWN: dict[str, Callable[[Bus, str], Awaitable[None]]] = {
    "watcher": _watcher,
    "scheduler": _scheduler,
    "launcher": _launcher,
    "terminator": _terminator,
    "interruption": _interruption,
    AGENT: lambda bus, _url: _mark_offerings(bus),
}


async def settled(bus: Bus, stream: str, group: str, handled: Sized, count: int) -> bool:
    """Whether at least ``count`` messages were handled and every delivery to the group is acknowledged."""
    found = (await bus.depth(stream)).groups.get(group)
    return found is not None and found.pending == 0 and len(handled) >= count


async def is_parked(bus: Bus, stream: str) -> bool:
    """Whether the stream has one dead letter."""
    return await bus.dead_letters(stream).count() == 1
