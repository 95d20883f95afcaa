"""The running stack as users, faults and promises see it; and who looks at it while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from redis.exceptions import RedisError

from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.informer import Event, Informer, Key, OnEvent
from shared.kube.resources import LAUNCH_RECORDS, Resource
from simulation.chaos.processes import RealProcess
from simulation.chaos.redis import RealRedis
from simulation.chaos.servers import ReadEmulator, RealAws, RealCluster, RealNetwork
from simulation.chaos.store import SEEN, OnChange, SeenStore
from simulation.chaos.ways.deletions import Deletions
from simulation.trace import Trace

LOOK_SECONDS = 2.0
SETTLED_SECONDS = 2.0
"""Events that were sent have been handled after this time."""
UNREADABLE = (DovetailError, OSError, RedisError)
"""What reading the world raises while a fault, or a busy machine, is in the way."""


@dataclass
class ChaosWorld:
    """Fits where the simulation's World is used by users, faults and those promises that can be seen from outside."""

    kube: Kube
    clock: Clock
    begun: float
    """Monotonic time of the start."""
    trace: Trace
    store: SeenStore
    emulator: ReadEmulator
    redis: RealRedis
    aws: RealAws
    cluster: RealCluster
    network: RealNetwork
    processes: Mapping[str, RealProcess]

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock.monotonic() - self.begun


class Observer:
    """Keeps the world's picture of objects and instances current, and records every change as an event."""

    def __init__(self, world: ChaosWorld) -> None:
        self._world = world
        self._looking = asyncio.Lock()
        self._known = 0

    async def follow(self, random: Random) -> None:
        """Watch every kind and look at the instances until this is cancelled."""
        async with TaskGroup() as group:
            for resource in SEEN:
                informer = Informer(
                    self._world.kube, resource, self._taking(resource), self._world.clock, random
                )
                group.create_task(informer.run(asyncio.Event()))
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    await self._look()
                except (DovetailError, OSError):
                    continue  # Asked again in a moment.

    def _taking(self, resource: Resource) -> OnEvent:
        async def take(event: Event) -> None:
            self._world.store.take(resource, event)

        return take

    async def _look(self) -> None:
        """Read the instances. A launch is recorded after what was written before it. Raises DovetailError, OSError."""
        async with self._looking:
            inventory = self._world.emulator.inventory
            await asyncio.to_thread(inventory.read)
            if len(inventory.all()) > self._known:
                # The API server answers after it has sent the events of every earlier write.
                await self._world.kube.list(LAUNCH_RECORDS)
                await asyncio.sleep(SETTLED_SECONDS)
                self._known = len(inventory.all())
                self._world.trace.add("aws", action="CreateFleet")

    async def read_all(self) -> None:
        """Read everything as it is now. Raises one of ``UNREADABLE``."""
        for resource in SEEN:
            listed = await self._world.kube.list(resource)
            self._world.store.replace(resource, listed.items)
        await self._look()


def recorded(trace: Trace, deletions: Deletions) -> OnChange:
    """A function that records each change of a store."""

    def record(resource: Resource, key: Key, begins_deletion: bool) -> None:
        verb, by = deletions.take(resource.plural, key) if begins_deletion else ("update", "")
        named = {"resource": resource.plural, "namespace": key.namespace, "name": key.name}
        trace.add("api", verb=verb, **named, by=by)

    return record
