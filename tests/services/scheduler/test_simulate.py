"""``POST /simulate`` on a scheduler as its ``build`` wires it, over HTTP (design, section 8)."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import orjson
import pytest

from services.scheduler.service import build
from services.scheduler.simulate import MOST_BYTES, MOST_OBJECTS, Simulator
from shared.bus import Bus
from shared.clock import SystemClock
from shared.domain.instance_types import encode_catalogue
from shared.environment import Environment
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS
from shared.live_settings import LiveSettings
from shared.metrics import Metrics
from shared.mirror.offerings import CatalogueStore
from shared.settings import SchedulerSettings, read
from shared.status import Listener, mount, server_loop
from tests.services.conftest import CLUSTER
from tests.shared.simulation.documents import (
    controller,
    instance_type,
    node_pool,
    pod,
    provisioner,
)
from tests.support.builders import make_catalogue
from tests.support.status_server import free_port, running


@pytest.fixture
async def client(
    kube: Kube, bus: Bus, redis_url: str, metrics: Metrics, recorder: Recorder
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the scheduler's status server. Its loops do not run: a simulation needs none of them."""
    settings = read(SchedulerSettings, cluster_name=CLUSTER, redis_url=redis_url)
    live = LiveSettings(SchedulerSettings, kube, recorder, namespace="karpenter")
    clock, chance = SystemClock(), random.Random(1)
    async with contextlib.AsyncExitStack() as stack:
        environment = Environment(
            settings, live, clock, chance, metrics, kube, bus, recorder, "test", stack
        )
        service = await build(environment)
        port = free_port()
        loop = server_loop(Listener(mount([service], clock), "127.0.0.1", port))
        async with (
            running(loop, port),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        ):
            yield session


async def post(client: aiohttp.ClientSession, body: bytes) -> tuple[int, dict[str, Any]]:
    async with client.post("/simulate?policy=LowestCost&effort=10", data=body) as response:
        return response.status, await response.json()


async def test_objects_in_a_plan_out_and_nothing_is_written(
    client: aiohttp.ClientSession, kube: Kube
) -> None:
    status, found = await post(client, orjson.dumps(OBJECTS))
    assert status == 200
    assert found["machines"][0]["pods"] == ["default/a"]
    assert found["machines"][0]["offering"]["price"] == 0.1
    assert (found["faults"], found["policy"]) == ([], "LowestCost")
    written = [await kube.list(kind) for kind in (MACHINES, NODE_CLAIMS)]
    assert [one.items for one in written] == [[], []]
    status, found = await post(client, b" " * (MOST_BYTES + 1))
    assert (status, list(found)) == (413, ["error"])


OBJECTS = [pod("a"), node_pool(), instance_type()]


@pytest.fixture
def simulator(bus: Bus) -> Simulator:
    return Simulator(CatalogueStore(bus.redis, bus.prefix), SystemClock())


async def ask(
    simulator: Simulator, body: Any, query: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    octets = body if isinstance(body, bytes) else orjson.dumps(body)
    answer = await simulator.answer(octets, query or {})
    return answer.status, orjson.loads(answer.body)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "List", "apiVersion": "v1", "items": OBJECTS},
        {"objects": OBJECTS},
        {"items": OBJECTS},
    ],
    ids=["List", "objects", "items"],
)
async def test_other_forms_of_bodies(simulator: Simulator, body: Any) -> None:
    assert len((await ask(simulator, body))[1]["machines"]) == 1


async def test_options_may_stand_beside_the_objects(simulator: Simulator) -> None:
    body = {"objects": OBJECTS, "policy": "LowestCost", "effort": 10}
    assert (await ask(simulator, body))[1]["policy"] == "LowestCost"


async def test_without_a_catalogue_that_of_the_cluster_is_used_or_the_bundled_one(
    simulator: Simulator,
) -> None:
    objects = [pod("a"), node_pool()]
    _, bundled = await ask(simulator, objects)
    assert bundled["machines"][0]["offering"]["zone"].startswith("us-east-1")
    catalogue = make_catalogue()
    await simulator.catalogues.put(encode_catalogue(catalogue), catalogue.generation)
    _, own = await ask(simulator, objects)
    assert own["machines"][0]["offering"]["instanceType"] == "m5.x002"
    _, chosen = await ask(simulator, objects, {"region": "us-east-1"})
    assert chosen["machines"][0]["offering"]["zone"].startswith("us-east-1")


@pytest.mark.parametrize(
    ("body", "query", "status", "told"),
    [
        (b"not: json", {}, 400, "the body is no JSON"),
        (b"", {}, 400, "the body is no JSON"),
        (b'{"policy": "LowestCost"}', {}, 400, "in 'objects'"),
        (b'{"objects": [], "items": []}', {}, 400, "in 'objects'"),
        (OBJECTS, {"polcy": "LowestCost"}, 400, "unknown option 'polcy'"),
        (OBJECTS, {"policy": "Cheapest"}, 400, "FewestNodes or LowestCost"),
        (OBJECTS, {"effort": "60000"}, 400, "effort must be at most"),
        ([pod(), provisioner()], {"region": "eu-west-9"}, 400, "eu-west-9"),
        (b"[" + b"{}," * MOST_OBJECTS + b"{}]", {}, 413, "objects"),
    ],
)
async def test_requests_that_cannot_be_answered_say_why(
    simulator: Simulator, body: Any, query: dict[str, str], status: int, told: str
) -> None:
    found = await ask(simulator, body, query)
    assert found[0] == status
    assert told in found[1]["error"]


async def test_nothing_usable_is_422_with_every_fault(simulator: Simulator) -> None:
    status, found = await ask(simulator, [{"kind": "Pod"}, {"kind": "NodePool"}])
    assert status == 422
    assert [one["field"] for one in found["faults"]] == ["metadata.name", "metadata.name"]


async def test_replicas_are_bounded(simulator: Simulator) -> None:
    crowd = controller("Deployment", replicas=2_000_000_000)
    status, found = await ask(simulator, [crowd, *OBJECTS])
    assert status == 200
    assert [one["field"] for one in found["faults"]] == ["spec.replicas"]


async def test_a_second_request_at_the_same_time_is_told_to_come_back(
    simulator: Simulator,
) -> None:
    answers = await asyncio.gather(*(ask(simulator, OBJECTS) for _ in range(3)))
    assert sorted(status for status, _ in answers) == [200, 429, 429]
    assert (await ask(simulator, OBJECTS))[0] == 200
