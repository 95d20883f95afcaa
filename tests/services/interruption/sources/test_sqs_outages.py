"""The API server or Redis is away while messages are handled (INT-04, INT-21, ACC-77; F8).

What cannot be handled then comes back and is handled once. The queue is the benchmark's, whose visibility timeout the
test may shorten; both servers are real, behind proxies that cut them off.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.interruption import body_of, instance_id
from bench.stacks.sqs_queue import Queue, served
from services.interruption.sources import deliveries
from services.interruption.sources import sqs as module
from services.interruption.sources.sqs import UNREADABLE
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import parse_machine
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.kube.machines import Machines
from shared.kube.resources import MACHINES, NODE_CLAIMS
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import UnavailableOfferings
from shared.redis.streams import INTERRUPTIONS
from tests.services.conftest import create_machine, create_node_claim
from tests.services.interruption.conftest import World
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.network.fault_proxy import FaultProxy
from tests.support.waiting import wait_until

LOST = range(0, 30, 3)
"""Numbers of spot warnings in the benchmark's mix."""
BROKEN = ["{", '{"detail": ']
RECEIVED = "karpenter_interruption_received_messages_total"


@pytest.fixture
async def queue(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Queue, Cloud]]:
    """A queue that hands out again after a second, and a client of it."""
    monkeypatch.setattr(deliveries, "VISIBILITY_SECONDS", 1)
    monkeypatch.setattr(deliveries, "MARGIN_SECONDS", 0.2)
    monkeypatch.setattr(module, "STORM_WAIT_SECONDS", 0)
    monkeypatch.setattr(module, "DEAD_LETTER_PAUSE_SECONDS", 0.5)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    made = Queue()
    async with served(made) as url:
        cloud = await Cloud.connect(
            region="us-west-2", endpoint_url=url, clock=SystemClock(), random=random.Random(1),
            user_agent="dovetail-tests",
        )  # fmt: skip
        yield made, cloud
        await cloud.close()


async def populate(world: World, mirrored: range = LOST) -> None:
    """Machines and NodeClaims by turns; the mirror hears of some."""
    for number in LOST:
        create, resource, parse = (
            (create_machine, MACHINES, parse_machine),
            (create_node_claim, NODE_CLAIMS, parse_node_claim),
        )[number % 2]
        await create(world.kube, f"lost-{number}")
        status = {"providerID": f"aws:///us-west-2a/{instance_id(number)}"}
        raw = await world.kube.patch(
            resource, f"lost-{number}", {"status": status}, subresource="status"
        )
        if number in mirrored:
            await world.show("machines", parse(raw))


async def deletions(world: World) -> dict[str, int]:
    """Name -> generation of the machines that are being deleted; a deletion raises it once, from 1."""
    listed = [
        one for kind in (MACHINES, NODE_CLAIMS) for one in (await world.kube.list(kind)).items
    ]
    return {
        one["metadata"]["name"]: one["metadata"]["generation"]
        for one in listed
        if one["metadata"].get("deletionTimestamp")
    }


def bodies() -> list[str]:
    """Every warning twice, and foreign instances."""
    return [body_of(number) for number in (*LOST, *LOST, 99, 102)]


@pytest.mark.slow
async def test_the_api_server_loses_answers_and_goes_away(
    world: World, queue: tuple[Queue, Cloud], tmp_path: Path
) -> None:
    """A deletion whose answer was lost has happened: the message that comes again deletes nothing twice."""
    await populate(world)
    sent, cloud = queue
    async with FaultProxy(api_port(world), loss=1.0, seed=3) as proxy:
        kube = await connect(write_kubeconfig(tmp_path / "cut", f"http://127.0.0.1:{proxy.port}"))
        kube._first_backoff = 0.001
        world.actions.machines = Machines(kube)
        sent.send(bodies())
        async with world.running(world.queue_source(cloud)):
            await wait_until(lambda: world.worker.failed > 3, "answers are lost")
            assert world.actions.deleted == 0
            proxy.go_away()
            failed, left = world.worker.failed, len(sent.bodies)
            await wait_until(lambda: world.worker.failed > failed + 2, "it is away")
            assert len(sent.bodies) >= left - 10  # one batch of deletions may have been on its way
            proxy.loss, proxy.refuses = 0.0, False
            await wait_until(lambda: not sent.bodies, "all are handled")
        await kube.close()
    assert await deletions(world) == {f"lost-{number}": 2 for number in LOST}
    assert world.actions.deleted == len(LOST)


@pytest.mark.slow
async def test_redis_goes_away_and_comes_back(
    world: World, queue: tuple[Queue, Cloud], redis_url: str
) -> None:
    """Mid-storm. Warnings are acted on without it, also about machines that the mirror never heard of; what Redis must
    keep comes back and is kept once.
    """
    await populate(world, mirrored=LOST[:6])
    sent, cloud = queue
    async with through_a_proxy(world, redis_url) as proxy:
        async with world.running(world.queue_source(cloud)):
            sent.send(bodies()[:3])
            await wait_until(lambda: world.actions.deleted == 3, "the storm is on")
            proxy.go_away()
            world.reader.complete = False
            sent.send([*BROKEN, *bodies()[3:]])
            await wait_until(
                lambda: len(sent.bodies) == len(BROKEN), "warnings are handled", seconds=15
            )
            again = len(BROKEN) * 2
            await wait_until(
                lambda: world.counted(RECEIVED, message_type=UNREADABLE) >= again, "they come again"
            )
            assert await deletions(world) == {f"lost-{number}": 2 for number in LOST}
            proxy.refuses = False
            await wait_until(lambda: not sent.bodies, "all are kept")
        kept = await world.letters.newest(10)
    assert sorted(letter.fields[b"body"].decode() for letter in kept) == sorted(BROKEN)
    assert world.actions.deleted == len(LOST)


def api_port(world: World) -> int:
    port: int | None = urlsplit(world.kube._connection._api.configuration.host).port
    assert port is not None
    return port


@asynccontextmanager
async def through_a_proxy(world: World, redis_url: str) -> AsyncIterator[FaultProxy]:
    """Notifier and dead letters reach Redis through a proxy; notifier ring as in the service."""
    port = urlsplit(redis_url).port
    assert port is not None
    stop = asyncio.Event()
    async with FaultProxy(port, loss=0.0, seed=1) as proxy:
        name = world.settings.cluster_name
        bus = Bus(proxy.url, name, clock=SystemClock(), random=random.Random(1))
        await bus.start()
        world.notifier.bus = bus
        world.notifier.unavailable = UnavailableOfferings(bus.redis, bus.prefix)
        world.letters = bus.dead_letters(INTERRUPTIONS)
        async with asyncio.TaskGroup() as group:
            group.create_task(world.notifier.run(stop))
            yield proxy
            stop.set()
        await bus.close()
