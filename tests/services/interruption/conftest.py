"""The service's parts on real Redis, API server and queue, wired by ``services.interruption.actions.worker``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from services.interruption.actions.machine_actions import MachineActions
from services.interruption.actions.notifier import Notifier
from services.interruption.actions.webhook import Webhook
from services.interruption.actions.worker import NoticeHandling, Worker
from services.interruption.directory import KINDS, Directory
from services.interruption.sources.sqs import SqsSource, keeping
from shared.api.core.nodes import parse_node
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import parse_machine
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.pools import read_pool
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS, Resource
from shared.metrics import Metrics
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.bus.dead_letters import DeadLetters
from shared.redis.mirror import Change, MirrorReader, MirrorWriter
from shared.runtime.tracing import OFF
from shared.settings import InterruptionSettings, read
from tests.services.conftest import (
    CLUSTER,
    Control,
    create_machine,
    create_node,
    create_node_claim,
)
from tests.services.terminator.world import World as Places
from tests.support.clock.fake import FakeClock
from tests.support.waiting import wait_until

INSTANCES = {"Machine": "i-0123456789abcdef0", "NodeClaim": "i-0123456789abcdef1"}
NAMES = {"Machine": "default-a", "NodeClaim": "default-c"}
RESOURCES: dict[str, Resource] = {"Machine": MACHINES, "NodeClaim": NODE_CLAIMS}
LABELS = {
    "karpenter.sh/capacity-type": "spot",
    "node.kubernetes.io/instance-type": "m5.large",
    "topology.kubernetes.io/zone": "us-west-2a",
}


@dataclass
class World:
    """The parts of one incarnation, and the watcher's pen."""

    kube: Kube
    worker: Worker
    actions: MachineActions
    notifier: Notifier
    directory: Directory
    reader: MirrorReader
    writer: MirrorWriter
    metrics: Metrics
    clock: FakeClock
    settings: InterruptionSettings
    letters: DeadLetters

    async def show(self, kind: str, record: Any) -> None:
        """Write one record to the mirror and wait until it is read."""
        key = getattr(record, "key", record.name)
        generation = await self.writer.apply([Change(kind, key, msgspec.json.encode(record))])
        await self.reader.wait_for(generation, 60)

    async def is_deleted(self, kind: str) -> bool:
        raw = await self.kube.get(RESOURCES[kind], NAMES[kind])
        return bool(raw["metadata"].get("deletionTimestamp"))

    def counted(self, name: str, **labels: str) -> float:
        """The value of one sample, 0 when it was never counted."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    def queue_source(self, cloud: Cloud) -> SqsSource:
        """A source that reads the emulator's queue into this world's backlog."""
        return SqsSource(
            self.settings, cloud.sqs, self.worker.backlog, self.directory,
            keeping(self.letters), SystemClock(), random.Random(1), self.metrics,
        )  # fmt: skip

    @asynccontextmanager
    async def running(self, source: SqsSource) -> AsyncIterator[None]:
        """Source, worker and deletions at work."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for run in (source.run, source.run_deletions, source.run_renewals, self.worker.run):
                group.create_task(run(stop))
            yield
            stop.set()


@pytest.fixture
async def instance(cloud: Cloud, control: Control) -> str:
    """A running one."""
    makers: Any = Places.__new__(Places)
    makers.cloud, makers.numbers = cloud, iter(range(10))
    (provider_id,) = await Places.instances(makers, 1)
    return str(provider_id.rpartition("/")[2])


@pytest.fixture
async def world(
    kube: Kube, bus: Bus, redis_url: str, metrics: Metrics, recorder: Recorder, clock: FakeClock
) -> AsyncIterator[World]:
    """A Machine and a NodeClaim with their instances, of which only the NodeClaim has a node (INT-23)."""
    settings = read(
        InterruptionSettings,
        cluster_name=CLUSTER,
        aws_region="us-west-2",
        interruption_queue=CLUSTER,
        receive_wait_seconds=1,
    )
    wall = SystemClock()
    directory = Directory(Machines(kube), wall, partial(read_pool, kube))
    reader = directory.reader = MirrorReader(
        redis_url, bus.prefix, clock=wall, kinds=KINDS, on_change=directory.note,
        block_milliseconds=20,
    )  # fmt: skip
    env: Any = SimpleNamespace(
        settings=settings, kube=kube, bus=bus, clock=clock, metrics=metrics, recorder=recorder,
        tracer=OFF,
    )  # fmt: skip
    handling = NoticeHandling.of(env, directory, Webhook(settings, wall, random.Random(2)))
    worker, notifier = handling.worker, handling.notifier
    writer = MirrorWriter(bus.redis, bus.prefix, epoch="a")
    await writer.begin({})
    letters = bus.dead_letters(streams.INTERRUPTIONS)
    made = World(
        kube,
        worker,
        worker.actions,
        notifier,
        directory,
        reader,
        writer,
        metrics,
        clock,
        settings,
        letters,
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run(stop))
        await wait_until(lambda: reader.complete, "the mirror")
        await _populate(made)
        yield made
        stop.set()


async def _populate(world: World) -> None:
    await create_machine(world.kube, NAMES["Machine"])
    await create_node_claim(world.kube, NAMES["NodeClaim"])
    for kind, parse in (("Machine", parse_machine), ("NodeClaim", parse_node_claim)):
        resource, name = RESOURCES[kind], NAMES[kind]
        status = {"providerID": f"aws:///us-west-2a/{INSTANCES[kind]}"}
        await world.kube.patch(resource, name, {"status": status}, subresource="status")
        raw = await world.kube.patch(resource, name, {"metadata": {"labels": LABELS}})
        await world.show("machines", parse(raw))
    node = await create_node(world.kube, f"aws:///us-west-2a/{INSTANCES['NodeClaim']}")
    await world.show("nodes", parse_node(node))
