"""Chaos follows a real API server and the emulator: every change becomes an event, and a list finds the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from simulation.chaos.servers import ReadEmulator, RealAws
from simulation.chaos.store import SeenStore
from simulation.chaos.ways.deletions import Deletions
from simulation.chaos.world import ChaosWorld, Observer, recorded
from simulation.trace import Trace
from tests.services.conftest import store_with_our_kinds
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.waiting import wait_until

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ABSENT: Any = None
"""Parts of the world that an observer does not look at."""


@pytest.fixture
def store() -> Store:
    return store_with_our_kinds()


@pytest.fixture
async def world(store: Store, tmp_path: Path, aws_emulator_url: str) -> AsyncIterator[ChaosWorld]:
    clock = SystemClock()
    trace = Trace(clock.monotonic)
    aws = RealAws(aws_emulator_url)
    with embedded_api_server(store=store) as url:
        kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
        yield ChaosWorld(
            kube=kube,
            clock=clock,
            begun=clock.monotonic(),
            trace=trace,
            store=SeenStore(recorded(trace, Deletions(clock.monotonic))),
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
