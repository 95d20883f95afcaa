"""The scheduler's parts on a hand-written mirror, as ``services.scheduler.service.build`` puts them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from services.scheduler.commands import Commands
from services.scheduler.disruption import Disruption
from services.scheduler.evidence.need import Need
from services.scheduler.handover import Handover
from services.scheduler.planning import Planner
from services.scheduler.report import Reporter
from services.scheduler.telling import Teller
from services.scheduler.view import View
from services.watcher.records import KINDS
from shared.bus import Bus
from shared.clock import SystemClock
from shared.domain.instance_types import encode_catalogue
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.leadership import Leadership
from shared.metrics import Metrics
from shared.mirror import Change, MirrorReader, MirrorWriter, Position
from shared.mirror.disruption_rate import DisruptionRate
from shared.mirror.offerings import CatalogueStore, UnavailableOfferings
from shared.settings import SchedulerSettings, read
from tests.services.conftest import CLUSTER
from tests.support.builders import make_catalogue, make_node_class
from tests.support.fake_clock import FakeClock
from tests.support.real_pods import store_pods
from tests.support.waiting import wait_until


@dataclass
class Scheduler:
    """One incarnation of the service, and the watcher's pen."""

    planner: Planner
    disruption: Disruption
    reader: MirrorReader
    writer: MirrorWriter
    kube: Kube

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
    kube: Kube, bus: Bus, reader: MirrorReader, metrics: Metrics, recorder: Recorder
) -> tuple[Planner, Disruption]:
    """A scheduler that remembers nothing."""
    clock, view, machines = SystemClock(), View(reader), Machines(kube)
    settings = read(SchedulerSettings, **SETTINGS)
    planner = Planner(
        settings=settings,
        view=view,
        machines=machines,
        bus=bus,
        clock=clock,
        metrics=metrics,
        catalogues=CatalogueStore(bus.redis, bus.prefix),
        unavailable=UnavailableOfferings(bus.redis, bus.prefix, clock),
        reporter=Reporter(recorder, {}),
        handover=Handover(settings, view, kube, clock),
        leadership=Leadership(None, clock),
        need=Need(kube),
    )
    commands = Commands(
        view=view,
        planner=planner,
        kube=kube,
        machines=machines,
        bus=bus,
        clock=clock,
        metrics=metrics,
        teller=Teller(recorder, metrics, bus, clock),
        rate=DisruptionRate(bus.redis, bus.prefix, clock),
    )
    return planner, Disruption(settings, view, planner, commands, clock)


@pytest.fixture
async def scheduler(
    kube: Kube, bus: Bus, redis_url: str, metrics: Metrics, recorder: Recorder
) -> AsyncIterator[Scheduler]:
    """Running on a mirror that holds one ready node class, with a small catalogue."""
    reader = MirrorReader(redis_url, bus.prefix, clock=SystemClock(), block_milliseconds=20)
    catalogue = make_catalogue()
    store = CatalogueStore(bus.redis, bus.prefix)
    await store.put(encode_catalogue(catalogue), catalogue.generation)
    planner, disruption = incarnation(kube, bus, reader, metrics, recorder)
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
        yield Scheduler(planner, disruption, reader, writer, kube)
        stop.set()


@pytest.fixture
async def handover(scheduler: Scheduler, clock: FakeClock) -> Handover:
    """The planner's own, with time in the test's hand; it knows the server already."""
    made = scheduler.planner.handover
    made.clock = clock
    await made.step()
    return made
