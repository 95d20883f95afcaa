"""A cluster in which launchers die: one API server, EC2 and Redis for a whole module, emptied between two cases.

The API server runs on the test's own event loop, and what AWS has for the classes is looked up once: a case is some
ten milliseconds of launching then. A case that is to be cold gets a launcher that looks all of it up itself.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from local.cluster.storage.store import Store
from services.launcher.garbage_collection.controller import GarbageCollection
from services.launcher.launch import controller as launch_module
from services.launcher.launch.controller import LaunchController
from services.launcher.ports import Ports
from services.launcher.service import Launcher
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import encode_catalogue
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODE_CLAIMS
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore, UnavailableOfferings
from shared.settings import LauncherSettings, read
from tests.services.conftest import (
    CLUSTER,
    Control,
    connect_cloud,
    create_node_class,
    create_node_pool,
    create_pool,
    our_definitions,
)
from tests.services.launcher.mortal import Life, Mortal
from tests.services.launcher.terminator_part import TerminatorPart
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.cluster.kubectl import served
from tests.support.planning.builders import make_catalogue, make_type

FORGETFUL = {"instancePendingSeconds": 0, "instanceShuttingDownSeconds": 0}
"""EC2 without its pauses."""
CATALOGUE = make_catalogue((make_type("m5.large"), make_type("m5.xlarge", 4, 16, 192_000)))

_worlds = itertools.count(1)


@dataclass
class CrashWorld:
    """What all cases share."""

    store: Store
    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: FakeClock
    control: Control
    metrics: Metrics = field(default_factory=lambda: Metrics("test"))
    written: list[dict[str, Any]] = field(default_factory=list)
    """Every record that a launcher wrote, until somebody takes them out."""
    _earlier: frozenset[str] = frozenset()
    """Instances of the cases before this one, as long as EC2 lists them."""

    def __post_init__(self) -> None:
        self.settings = read(
            LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2", disable_dry_run=True
        )
        self.recorder = Recorder(self.kube, clock=self.clock, random=random.Random(3))
        self.unavailable = UnavailableOfferings(self.bus.redis, self.bus.prefix)
        self.catalogues = CatalogueStore(self.bus.redis, self.bus.prefix)
        self.terminator = TerminatorPart(self.kube, self.cloud, self.bus, self.clock)
        self._warm = self._launcher(clock=SystemClock())

    def _launcher(self, **ports: Any) -> Launcher:
        """Of this world, with other ports where they are named."""
        usual = {
            "kube": self.kube,
            "cloud": self.cloud,
            "bus": self.bus,
            "clock": self.clock,
            "metrics": self.metrics,
            "recorder": self.recorder,
            "settings": self.settings,
        }
        options = {"sleep": ports.pop("sleep")} if "sleep" in ports else {}
        return Launcher(Ports(**{**usual, **ports}), **options)

    def incarnation(self, life: Life, *, cold: bool = False) -> LaunchController:
        """A new launcher that remembers nothing. ``cold``: not even what AWS has for the classes."""

        async def sleep(seconds: float) -> None:
            self.wait(seconds)

        made = self._launcher(
            kube=Mortal(self.kube, life, create=self._noted(life)),
            cloud=Mortal(
                self.cloud, life, ec2=Mortal(self.cloud.ec2, life),
                launch_templates=Mortal(self.cloud.launch_templates, life),
            ),
            bus=Mortal(self.bus, life),
            sleep=sleep,
        )  # fmt: skip
        parts: dict[str, Any] = {"unavailable": Mortal(self.unavailable, life)}
        if not cold:
            parts |= {"node_classes": self._warm.node_classes, "templates": self._warm.templates}
        vars(made).update(parts)  # as if they had been made already
        return made.launch

    def _noted(self, life: Life) -> Any:
        """Creates what a launcher creates, and remembers its records."""
        mortal: Any = Mortal(self.kube, life)

        async def create(resource: Any, body: dict[str, Any]) -> Any:
            if resource is LAUNCH_RECORDS:
                self.written.append(body)
            return await mortal.create(resource, body)

        return create

    def garbage(self, life: Life | None = None) -> GarbageCollection:
        """A new sweep."""
        if life is None:
            return self._launcher().garbage
        cloud = Mortal(self.cloud, life, ec2=Mortal(self.cloud.ec2, life))
        return self._launcher(kube=Mortal(self.kube, life), cloud=cloud).garbage

    async def machines(self) -> list[Machine]:
        return list(await Machines(self.kube).list())

    async def owned(self) -> list[str]:
        """Instance ids that machines name, in order; one that two machines name is there twice."""
        named = (provider_instance_id(m.provider_id) for m in await self.machines())
        return sorted(one for one in named if one)

    async def records(self) -> list[dict[str, Any]]:
        return (await self.kube.list(LAUNCH_RECORDS)).items

    def started(self) -> list[str]:
        """Instances that EC2 has started since the world was emptied."""
        listed = (row["instanceId"] for row in self.control.instances())
        return sorted(one for one in listed if one not in self._earlier)

    def wait(self, seconds: float) -> None:
        """Time passes, for EC2 as well."""
        self.clock.advance(seconds)
        self.control.post("clock", stepSeconds=seconds)

    def same_time(self) -> None:
        """EC2's clock runs on by itself, ours does not: who is behind comes up."""
        seconds = self.clock.now() - self.control.post("clock", stepSeconds=0.001)["now"]
        if seconds > 0:
            self.control.post("clock", stepSeconds=seconds)
        else:
            self.clock.advance(-seconds)

    async def empty(self) -> None:
        """End what a case made, and forget it."""
        self.wait(61)  # EC2's list shows what has ended a minute long
        self.same_time()
        if alive := self.control.alive():
            await self.cloud.ec2.terminate(alive)
        self._earlier = frozenset(self.control.states())
        for resource in (MACHINES, NODE_CLAIMS, LAUNCH_RECORDS):
            listed = (await self.kube.list(resource)).items
            for name in [one["metadata"]["name"] for one in listed]:
                self._remove(resource.plural, resource.group, name)
        self.written.clear()
        await self.bus.redis.delete(f"{self.bus.prefix}unavailable")

    def _remove(self, plural: str, group: str, name: str) -> None:
        self.store.patch(plural, name, {"metadata": {"finalizers": None}}, group=group)
        if self.store.find(plural, name, group=group) is not None:
            self.store.delete(plural, name, group=group)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crashes(
    redis_url: str, aws_emulator_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[CrashWorld]:
    """One world for a module, whose tests run on the module's loop; each begins with ``await crashes.empty()``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.delenv("AWS_PROFILE", raising=False)
        patch.setattr(launch_module, "BATCH_IDLE_SECONDS", 0.001)  # all of a case ask at once
        async with crash_world(
            redis_url, aws_emulator_url, tmp_path_factory.mktemp("crashes")
        ) as made:
            yield made


@asynccontextmanager
async def crash_world(redis_url: str, aws_url: str, directory: Path) -> AsyncIterator[CrashWorld]:
    """A pool and a class of both generations, and nothing that waits."""
    async with AsyncExitStack() as open_things:
        clock = FakeClock(wall=SystemClock().now())
        store = Store(clock, random.Random(7))
        for definition in our_definitions():
            store.create("customresourcedefinitions", definition, group="apiextensions.k8s.io")
        url = await open_things.enter_async_context(served(store))
        kube = await connect(write_kubeconfig(directory / "kubeconfig", url))
        open_things.push_async_callback(kube.close)
        name = f"crashes-{os.getpid()}-{next(_worlds)}"  # nothing of the last module's world
        bus = Bus(redis_url, name, clock=SystemClock(), random=random.Random(1))
        await bus.start()
        open_things.push_async_callback(bus.close)
        cloud = await connect_cloud(aws_url)
        open_things.push_async_callback(cloud.close)
        control = Control(aws_url)
        control.post("reset")
        control.post("settings", **FORGETFUL)
        open_things.callback(control.post, "reset")
        await create_pool(kube)
        await create_node_pool(kube)
        await create_node_class(kube)
        made = CrashWorld(store, kube, cloud, bus, clock, control)
        await made.catalogues.put(encode_catalogue(CATALOGUE), CATALOGUE.generation)
        yield made


async def launch_rounds(
    world: CrashWorld, launch: LaunchController, life: Life, keys: Sequence[str], rounds: int
) -> list[BaseException]:
    """Every machine is asked for until all is done, the launcher dies, or the rounds are over. What is left."""
    failed: list[BaseException] = []
    for _ in range(rounds):
        ended = await asyncio.gather(*(launch.launch(key) for key in keys), return_exceptions=True)
        failed = [one for one in ended if isinstance(one, BaseException)]
        if life.dead or not failed:
            break
        world.clock.advance(21)
    return failed
