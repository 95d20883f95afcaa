"""The scheduler's parts on a hand-written mirror, as ``services.scheduler.service`` wires them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from services.scheduler.disruption.commands import Commands
from services.scheduler.disruption.controller import Disruption
from services.scheduler.provisioning.handover import Handover
from services.scheduler.provisioning.planner import Planner
from services.scheduler.service import Parts, compose
from services.scheduler.state.cluster import ClusterState, View
from services.watcher.conversion import KINDS
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.concurrency.clock import Clock, SystemClock
from shared.domain.instance_types.types import encode_catalogue
from shared.domain.pools.nodepools import NodePool
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror import Change, MirrorReader, MirrorWriter, Position
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.runtime.environment import Environment
from shared.runtime.leadership import Leadership
from shared.runtime.live_settings import LiveSettings
from shared.settings import SchedulerSettings, read
from tests.services.conftest import CLUSTER, create_pool
from tests.support.clock.fake import FakeClock
from tests.support.cluster.real_pods import store_pods
from tests.support.planning.builders import make_catalogue, make_node_class
from tests.support.waiting import wait_until


@dataclass
class Scheduler:
    """One incarnation of the service, and the watcher's pen."""

    parts: Parts
    reader: MirrorReader
    writer: MirrorWriter
    kube: Kube

    @property
    def cluster(self) -> ClusterState:
        return self.parts.cluster

    @property
    def view(self) -> View:
        return self.parts.cluster.view

    @property
    def planner(self) -> Planner:
        return self.parts.planner

    @property
    def disruption(self) -> Disruption:
        return self.parts.disruption

    @property
    def commands(self) -> Commands:
        return self.parts.disruption.commands

    async def show(self, gone: Collection[tuple[str, str]] = (), **kinds: Any) -> None:
        """Write records to the mirror, take ``gone`` off, and wait until the scheduler sees it. (kind, key). Pods are
        on the API server too."""
        await store_pods(self.kube, kinds.get("pods", ()))
        await self.show_only(gone, **kinds)

    async def show_only(self, gone: Collection[tuple[str, str]] = (), **kinds: Any) -> None:
        """The same, and the API server knows nothing of it."""
        changes = [Change(kind, key, None) for kind, key in gone]
        changes += [
            Change(kind, getattr(record, "key", record.name), msgspec.json.encode(record))
            for kind, records in kinds.items()
            for record in records
        ]
        generation = await self.writer.apply(changes)
        await self.reader.wait_for(generation, 60)

    async def hide(self, kind: str, key: str) -> None:
        """Take one record off the mirror."""
        generation = await self.writer.apply([Change(kind, key, None)])
        await self.reader.wait_for(generation, 60)

    async def plan_refused(self, trigger: str = "t") -> None:
        """A window that no round may close."""
        self.planner.trigger(trigger)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.planner.run(stop))
            await wait_until(lambda: self.planner.problem, "the refusal")
            stop.set()
        assert self.planner.window.opened_at is not None

    async def plan(self, trigger: str = "t") -> None:
        """One window and its round."""
        rounds = self.planner.rounds
        self.planner.trigger(trigger)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.planner.run(stop))
            await wait_until(lambda: self.planner.window.opened_at is None, "the window closes")
            stop.set()
        assert self.planner.rounds <= rounds + 1


SOUND = {kind.resource.plural: Position(version="", sound=True, seconds=0.0) for kind in KINDS}
"""Watches that are open. The mirror is at no version, so what the scheduler writes counts until it is shown."""
SETTINGS: dict[str, Any] = {
    "cluster_name": CLUSTER,
    "batch_idle_duration": 0.01,
    "disruption_period": 0.0,
    "validation_delay": 0.0,
    "nominate": "auto",
}


def incarnation(
    kube: Kube,
    bus: Bus,
    reader: MirrorReader,
    metrics: Metrics,
    recorder: Recorder,
    **more: Any,
) -> Parts:
    """A scheduler that remembers nothing, as the service wires it. Its loops do not run. ``more``: settings."""
    clock, chance = SystemClock(), random.Random(1)
    settings = read(SchedulerSettings, **{**SETTINGS, **more})
    live = LiveSettings(SchedulerSettings, kube, recorder, namespace="karpenter")
    env = Environment(
        settings, live, clock, chance, metrics, kube, bus, recorder, "test", AsyncExitStack()
    )
    return compose(env, reader, Leadership(None, clock))


@pytest.fixture
def more_settings() -> dict[str, Any]:
    """Settings of ``scheduler`` that a file of tests may choose."""
    return {}


@pytest.fixture
async def scheduler(
    kube: Kube,
    bus: Bus,
    redis_url: str,
    metrics: Metrics,
    recorder: Recorder,
    more_settings: dict[str, Any],
) -> AsyncIterator[Scheduler]:
    """Running on a mirror that holds one ready node class, with a small catalogue."""
    reader = MirrorReader(
        redis_url,
        bus.prefix,
        clock=SystemClock(),
        on_change=lambda change: parts.note(change),
        block_milliseconds=20,
    )
    catalogue = make_catalogue()
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    parts = incarnation(kube, bus, reader, metrics, recorder, **more_settings)
    writer = MirrorWriter(bus.redis, bus.prefix, epoch="epoch-a")
    await writer.begin(
        {"nodeclasses": {"AWSNodeTemplate/default": msgspec.json.encode(make_node_class())}}
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run(stop))
        await wait_until(lambda: reader.complete, "the first load")
        await writer.heartbeat(SOUND)
        assert await reader.wait_until_verified(60)
        yield Scheduler(parts, reader, writer, kube)
        stop.set()


TYPES = {"key": "node.kubernetes.io/instance-type", "operator": "Exists"}


async def pool_of(kube: Kube, **spec: Any) -> NodePool:
    """A stored Provisioner, as the watcher reads it."""
    raw = await create_pool(kube, **{"requirements": [TYPES], **spec})
    return parse_provisioner(raw).require("default")


async def machines(kube: Kube) -> list[dict[str, Any]]:
    """Every stored Machine."""
    return (await kube.list(MACHINES)).items


class AnotherTime:
    """A clock whose wall time is some seconds off."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self.seconds = clock, seconds

    def now(self) -> float:
        return self._clock.now() + self.seconds

    def monotonic(self) -> float:
        return self._clock.monotonic()


class Later(AnotherTime):
    """A clock that is ahead of another one, in both of its times."""

    def monotonic(self) -> float:
        return super().monotonic() + self.seconds


async def hear(scheduler: Scheduler, positions: Mapping[str, Position]) -> None:
    """A heartbeat of the watcher that the scheduler has read."""
    await scheduler.writer.heartbeat(positions)
    names, reader = sorted(positions), scheduler.reader
    expected = [positions[name].version for name in names]

    def heard() -> bool:
        found = [reader.position(name, 0.0) for name in names]
        return [one and one.version for one in found] == expected

    await wait_until(heard, "the heartbeat")


def machines_at(version: str, **changes: Any) -> dict[str, Position]:
    """Sound watches, that of machines at this version."""
    position = msgspec.structs.replace(SOUND["machines"], version=version, **changes)
    return {**SOUND, "machines": position}


@pytest.fixture
async def handover(scheduler: Scheduler, clock: FakeClock) -> Handover:
    """The planner's own, with time in the test's hand; it knows the server already."""
    made = scheduler.planner.handover
    made.clock = clock
    await made.step()
    return made
