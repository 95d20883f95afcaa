"""Redis goes away in the middle of a storm: every machine is deleted all the same (F8, INT-22)."""

from __future__ import annotations

import asyncio
import random
from urllib.parse import urlsplit

from services.interruption import notices
from services.interruption.backlog import Entry
from services.interruption.notices import Notice, rank
from shared.api.machines import parse_machine
from shared.bus import Bus
from shared.clock import SystemClock
from shared.kube.resources import MACHINES
from shared.mirror.offerings import UnavailableOfferings
from tests.services.conftest import create_machine
from tests.services.interruption.conftest import World
from tests.support.fault_proxy import FaultProxy
from tests.support.waiting import wait_until

MACHINES_LOST = 24


async def test_redis_is_cut_mid_storm(world: World, redis_url: str) -> None:
    """What was to be told over Redis is forgotten; what stands on the API server is enough to go on."""
    ids = [f"i-{number:017x}" for number in range(MACHINES_LOST)]
    for number, instance in enumerate(ids):
        await create_machine(world.kube, f"lost-{number}")
        status = {"providerID": f"aws:///us-west-2a/{instance}"}
        raw = await world.kube.patch(
            MACHINES, f"lost-{number}", {"status": status}, subresource="status"
        )
        if number < MACHINES_LOST * 3 // 4:  # the mirror never heard of the others
            await world.show("machines", parse_machine(raw))
    done: list[str] = []
    stop = asyncio.Event()
    port = urlsplit(redis_url).port
    assert port is not None
    async with FaultProxy(port, loss=0.0, seed=1) as proxy, asyncio.TaskGroup() as group:
        bus = Bus(
            proxy.url, world.settings.cluster_name, clock=SystemClock(), random=random.Random(1)
        )
        await bus.start()
        world.bells.bus = bus
        world.bells.unavailable = UnavailableOfferings(bus.redis, bus.prefix, world.clock)
        runs = [group.create_task(run(stop)) for run in (world.worker.run, world.bells.run)]
        for number, instance in enumerate(ids):
            if number == MACHINES_LOST // 2:
                await wait_until(lambda: done, "the storm is on")
                await proxy.__aexit__(None, None, None)
                world.reader.complete = False
            notice = Notice(f"n-{number}", notices.SPOT, (instance,))
            entry = Entry(notice, lambda name=instance: done.append(name))
            await world.worker.backlog.put(entry, rank(notice, 1))
        await wait_until(lambda: len(done) == MACHINES_LOST, "all notices are handled")
        assert not any(run.done() for run in runs)
        stop.set()
        await asyncio.gather(*runs)
        await bus.close()
    listed = (await world.kube.list(MACHINES)).items
    going = {m["metadata"]["name"] for m in listed if m["metadata"].get("deletionTimestamp")}
    assert going == {f"lost-{number}" for number in range(MACHINES_LOST)}
    assert (world.deeds.deleted, world.worker.failed) == (MACHINES_LOST, 0)
