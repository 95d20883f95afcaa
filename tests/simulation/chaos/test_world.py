"""Chaos follows a real API server and the emulator: every change becomes an event, and a list finds the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from shared.domain.machines.machine import INITIALIZED
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from simulation.chaos.promises import Broken, Promises
from simulation.chaos.servers import ReadEmulator, RealAws
from simulation.chaos.stack import MARKS
from simulation.chaos.store import SeenStore
from simulation.chaos.ways.deletions import Deletions
from simulation.chaos.ways.proxy import Proxy
from simulation.chaos.world import ChaosWorld, Observer, recorded
from simulation.trace import Trace
from tests.simulation.invariants.builders import History
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.waiting import wait_until

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ABSENT: Any = None
"""Parts of the world that an observer does not look at."""


@pytest.fixture
def history() -> History:
    """Builds objects in the store of the API server."""
    return History()


@pytest.fixture
def store(history: History) -> Store:
    return history.store


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    with embedded_api_server(store=store) as found:
        yield found


@pytest.fixture
def deletions() -> Deletions:
    return Deletions(SystemClock().monotonic)


@pytest.fixture
async def world(
    url: str, deletions: Deletions, tmp_path: Path, aws_emulator_url: str
) -> AsyncIterator[ChaosWorld]:
    clock = SystemClock()
    trace = Trace(clock.monotonic)
    aws = RealAws(aws_emulator_url)
    kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
    yield ChaosWorld(
        kube=kube,
        clock=clock,
        begun=clock.monotonic(),
        trace=trace,
        store=SeenStore(recorded(trace, deletions)),
        emulator=ReadEmulator(aws, "dovetail-chaos", "us-west-2"),
        redis=ABSENT,
        aws=aws,
        cluster=ABSENT,
        network=ABSENT,
        processes={},
    )
    await kube.close()


def seen(world: ChaosWorld, plural: str) -> list[str]:
    """The names in the events of one kind."""
    return [
        str(one.fields["name"]) for one in world.trace.last if one.fields.get("resource") == plural
    ]


async def test_every_change_becomes_an_event(store: Store, world: ChaosWorld) -> None:
    async with asyncio.TaskGroup() as group:
        following = group.create_task(Observer(world).follow(Random(1)))
        store.create("pods", POD, namespace="default")
        await wait_until(lambda: seen(world, "pods") == ["a"], "the pod is seen")
        store.delete("pods", "a", namespace="default")
        await wait_until(lambda: not world.store.list("pods"), "its end is seen")
        assert set(seen(world, "pods")) == {"a"}
        following.cancel()


@pytest.mark.slow
async def test_a_reading_finds_everything_and_forgets_what_is_gone(
    store: Store, world: ChaosWorld
) -> None:
    observer = Observer(world)
    store.create("pods", POD, namespace="default")
    await observer.read_all()
    assert [one["metadata"]["name"] for one in world.store.list("pods")] == ["a"]
    store.delete("pods", "a", namespace="default")
    await observer.read_all()
    assert world.store.list("pods") == []


async def test_a_deletion_by_the_scheduler_is_judged_as_its_own(
    history: History, world: ChaosWorld, deletions: Deletions, url: str, tmp_path: Path
) -> None:
    """EXE-04: the replacement does not run yet."""
    told: list[Broken] = []
    world.trace.observe(Promises(world, told.append).observe)
    history.machine("old", "i-1", conditions=(INITIALIZED,), spec={"expireAfter": "Never"})
    history.machine("new")
    history.command("old", replacements=("new",))
    proxy = Proxy(int(url.rpartition(":")[2]), MARKS["api"], Random(1), deletions.note)
    await proxy.start()
    through = write_kubeconfig(tmp_path / "through", f"http://127.0.0.1:{proxy.port}")
    scheduler = await Kube.connect(
        str(through), clock=world.clock, random=Random(1), user_agent="dovetail-scheduler/0.1.0"
    )
    async with asyncio.TaskGroup() as group:
        following = group.create_task(Observer(world).follow(Random(1)))
        await wait_until(
            lambda: len(world.store.list("nodeclaims", group=NODE_CLAIMS.group)) == 2,
            "both are seen",
        )
        await scheduler.delete(NODE_CLAIMS, "old")
        await wait_until(lambda: told, "the promise breaks")
        following.cancel()
    await scheduler.close()
    await proxy.close()
    assert [one.promise for one in told] == ["replacements are ready before machines go"]
    assert told[0].sentence == "NodeClaim/old was deleted before NodeClaim/new was ready"
