"""The bus and the mirror on the Redis in memory, in virtual time, under faults that the seed chooses.

Small worlds without Kubernetes and AWS: a seed takes less than a second.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextvars import copy_context
from random import Random
from typing import Any

import pytest

from shared.errors import DovetailError
from shared.redis.bus import Bus, Envelope, RetryLater
from shared.redis.mirror import Change, MirrorLost, MirrorReader, MirrorWriter
from simulation.loop import SimulatedLoop, run
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner
from simulation.servers.redis import REDIS_6, REDIS_7, RedisServer

# The client library leaves connections open that a fault has broken.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Here, and not in the test of another file that runs when the collector does."""
    yield
    gc.collect()


SEEDS = range(4)
PLACE = ("10.0.0.1", 6379)
URL = "redis://10.0.0.1:6379/0"
FAULT_SECONDS = 60.0
QUIET_SECONDS = 600.0

KEPT: list[object] = []
"""Worlds and their processes. A task that is collected would run its ``finally`` blocks without a loop."""


class LoopClock:
    """The time of the loop."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return 1_790_000_000.0 + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()


class SmallWorld:
    """A Redis, processes around it and faults."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"world {seed}")
        self.network = Network(Random(f"network {seed}"))
        self.loop = SimulatedLoop(Random(f"loop {seed}"), self.network)
        self.clock = LoopClock(self.loop)
        version = self.random.choice((REDIS_6, REDIS_7))
        self.redis = RedisServer(self.loop.time, version=version)
        self.owners: dict[str, Owner] = {}
        KEPT.append(self)

    def play(self, scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start Redis and play the scene."""

        async def begin() -> None:
            await self.start("redis", self.loop.create_server(self.redis.connection, *PLACE))
            await scene()

        run(self.loop, begin())

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run ``work`` as a process of its own."""
        owner = self.owners[name] = Owner(name)
        KEPT.append(owner)
        context = copy_context()
        context.run(CURRENT.set, owner)
        return self.loop.create_task(work, context=context)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.loop.kill(self.owners[name])
        self.network.kill(self.owners[name])

    async def disturb(self, faults: list[Callable[[], object]]) -> None:
        """A fault every few seconds, for ``FAULT_SECONDS``."""
        end = self.loop.time() + FAULT_SECONDS
        while self.loop.time() < end:
            await asyncio.sleep(self.random.uniform(0.1, 10))
            self.random.choice(faults)()

    async def quiet(self, ended: Callable[[], bool]) -> None:
        """Wait until ``ended``, at most ``QUIET_SECONDS``."""
        for _ in range(int(QUIET_SECONDS)):
            if ended():
                return
            await asyncio.sleep(1)

    def faults(self, parties: list[str]) -> list[Callable[[], object]]:
        """Those that lose no data."""
        draw = self.random
        return [
            lambda: self.redis.restart(keep_data=True, down_seconds=draw.uniform(0, 10)),
            lambda: self.redis.stall(draw.uniform(0.1, 12)),
            lambda: self._for_a_while(self.redis.set_out_of_memory),
            lambda: self._for_a_while(self.redis.set_disk_full),
            lambda: self.network.cut(draw.choice(parties), "redis", "before"),
            lambda: self.network.cut(draw.choice(parties), "redis", "after"),
            lambda: self.network.partition(draw.choice(parties), "redis", draw.uniform(1, 15)),
        ]

    def _for_a_while(self, switch: Callable[[bool], None]) -> None:
        switch(True)
        self.loop.call_later(self.random.uniform(0.1, 10), switch, False)

    def losses(self) -> list[Callable[[], object]]:
        """Faults that lose data."""
        return [
            lambda: self.redis.restart(keep_data=False),
            self.redis.flush,
            lambda: self.redis.fail_over(self.random.uniform(0.01, 1)),
        ]


class Messages:
    """A publisher that repeats what may not have arrived, two consumers, and what was handled."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.handled: Counter[str] = Counter()
        self.published: list[str] = []
        self.starts = 0
        self.stop = asyncio.Event()

    def bus(self, name: str) -> Bus:
        return Bus(URL, "test", clock=self.world.clock, random=Random(name))

    async def publish(self) -> None:
        """Until ``stop``; a message counts once Redis has confirmed it."""
        bus, draw = self.bus("publisher"), self.world.random
        while not self.stop.is_set():
            name = f"m{len(self.published)}"
            await self._publish_one(bus, name)
            self.published.append(name)
            await asyncio.sleep(draw.uniform(0, 1))

    async def _publish_one(self, bus: Bus, name: str) -> None:
        envelope = Envelope(id=name, type="test", key=name, body=b"", at=self.world.clock.now())
        while True:
            try:
                await bus.publish("work", envelope)
                return
            except DovetailError:
                await asyncio.sleep(0.5)

    def start_consumer(self, name: str) -> None:
        self.starts += 1
        instance = f"{name}-{self.starts}"
        bus, never = self.bus(instance), asyncio.Event()
        consumer = bus.consumer(stream="work", group="group", name=instance, handler=self.handle)
        self.world.start(name, consumer.run(never))

    def restart_consumer(self) -> None:
        name = self.world.random.choice(("consumer-0", "consumer-1"))
        self.world.kill(name)
        self.start_consumer(name)

    async def handle(self, envelope: Envelope) -> None:
        draw = self.world.random
        if draw.random() < 0.1:
            raise RetryLater(draw.uniform(0, 5))
        await asyncio.sleep(draw.uniform(0, 2))
        if draw.random() < 0.02:
            raise ValueError("a fault of the handler")
        self.handled[envelope.id] += 1

    def unhandled(self) -> list[str]:
        return [name for name in self.published if not self.handled[name]]

    def left(self) -> int:
        """Entries that are unread, pending or delayed."""
        stream, redis = "dovetail:{test}:work", self.world.redis
        waiting = redis.unread(stream, "group") + len(redis.pending(stream, "group"))
        return waiting + len(redis.members("dovetail:{test}:delay:work"))

    async def finish(self) -> None:
        """Wait until all is handled, at most ``QUIET_SECONDS``."""
        self.stop.set()
        await self.world.quiet(lambda: not self.left() and not self.unhandled())


async def message_scene(world: SmallWorld, messages: Messages, faults: list[Any]) -> None:
    for name in ("consumer-0", "consumer-1"):
        messages.start_consumer(name)
    publishing = world.start("publisher", messages.publish())
    await world.disturb(faults)
    messages.stop.set()
    await publishing
    await messages.finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_message_is_lost_while_redis_keeps_its_data(seed: int) -> None:
    world = SmallWorld(seed)
    messages = Messages(world)
    faults = [*world.faults(["consumer-0", "consumer-1", "publisher"]), messages.restart_consumer]
    world.play(lambda: message_scene(world, messages, faults))
    assert len(messages.published) > 5
    assert (messages.unhandled(), messages.left()) == ([], 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_messages_are_handled_again_after_redis_lost_its_data(seed: int) -> None:
    world = SmallWorld(seed)
    messages = Messages(world)
    faults = [*world.faults(["consumer-0", "consumer-1", "publisher"]), *world.losses()]

    async def scene() -> None:
        await message_scene(world, messages, [*faults, messages.restart_consumer])
        # What was published before may be lost; what comes now may not.
        await asyncio.sleep(60)
        messages.published.clear()
        messages.stop.clear()
        publishing = world.start("publisher", messages.publish())
        await asyncio.sleep(20)
        messages.stop.set()
        await publishing
        messages.published = [f"m{number}" for number in range(len(messages.published))]
        await messages.finish()

    world.play(scene)
    assert messages.left() == 0
    assert messages.unhandled() == []


class Mirrored:
    """A writer that begins anew when the mirror is lost, readers, and what they should hold."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.objects: dict[str, dict[str, bytes]] = {"pods": {}, "nodes": {}}
        self.stop = asyncio.Event()
        self.readers: list[MirrorReader] = []
        self.starts = 0

    def start_reader(self, name: str) -> None:
        prefix = "dovetail:{test}:"
        reader = MirrorReader(
            URL, prefix, clock=self.world.clock, random=Random(name), key="k" * 32
        )
        self.readers.append(reader)
        self.world.start(name, reader.run(asyncio.Event()))

    def restart_writer(self) -> None:
        if "writer" in self.world.owners:
            self.world.kill("writer")
        self.starts += 1
        self.world.start("writer", self.write(f"epoch-{self.starts}"))

    async def write(self, epoch: str) -> None:
        bus = Bus(URL, "test", clock=self.world.clock, random=Random(epoch))
        writer = MirrorWriter(bus.redis, bus.prefix, epoch, key="k" * 32)
        is_begun, beat_at, unsent = False, 0.0, list[Change]()
        while True:
            if not self.stop.is_set():
                unsent += self._changes()
            try:
                if not is_begun:
                    unsent = []
                    await writer.begin({kind: dict(held) for kind, held in self.objects.items()})
                    is_begun = True
                if unsent:
                    await writer.apply(unsent)
                    unsent = []
                if self.world.loop.time() >= beat_at:
                    is_begun = await writer.heartbeat()
                    beat_at = self.world.loop.time() + 5
            except MirrorLost:
                is_begun = False
            except DovetailError:
                await asyncio.sleep(0.2)
            await asyncio.sleep(self.world.random.uniform(0, 1))

    def _changes(self) -> list[Change]:
        draw = self.world.random
        changes = []
        for _ in range(draw.randrange(4)):
            kind, key = draw.choice(("pods", "nodes")), f"key-{draw.randrange(10)}"
            held = self.objects[kind]
            if key in held and draw.random() < 0.3:
                del held[key]
            else:
                held[key] = b"%d" % draw.randrange(1000)
            changes.append(Change(kind, key, held.get(key)))
        return changes

    def wrong(self) -> list[str]:
        found = []
        for number, reader in enumerate(self.readers):
            if {kind: held for kind, held in reader.kinds.items() if held} != {
                kind: held for kind, held in self.objects.items() if held
            }:
                found.append(f"reader {number} differs")
            if not reader.complete or reader.doubt:
                found.append(f"reader {number}: {reader.complete}, {reader.doubt}")
        return found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mirror_equals_its_source_in_the_end(seed: int) -> None:
    world = SmallWorld(seed)
    mirrored = Mirrored(world)

    async def scene() -> None:
        parties = ["writer", "reader-0", "reader-1"]
        mirrored.restart_writer()
        for name in parties[1:]:
            mirrored.start_reader(name)
        faults = [*world.faults(parties), *world.losses(), mirrored.restart_writer]
        await world.disturb(faults)
        mirrored.stop.set()
        await world.quiet(lambda: not mirrored.wrong())

    world.play(scene)
    assert mirrored.wrong() == []
