"""``POST /simulate`` on a scheduler as its ``build`` wires it, over HTTP (docs/spec/design.md)."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import aiohttp
import orjson
import pytest

from services.scheduler.service import build
from services.scheduler.status import simulate as simulate_module
from services.scheduler.status.simulate import (
    BOUNDS,
    MOST_BYTES,
    MOST_OBJECTS,
    Request,
    Simulator,
    answer_request,
)
from shared.concurrency.clock import SystemClock
from shared.domain.instance_types.types import encode_catalogue
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.runtime.child import Bounds
from shared.runtime.environment import Environment
from shared.runtime.live_settings import LiveSettings
from shared.runtime.services import Question, Service
from shared.runtime.status import Listener, mount, server_loop
from shared.settings import SchedulerSettings, read
from tests.services.conftest import CLUSTER
from tests.shared.simulation.documents import (
    controller,
    instance_type,
    node_pool,
    pod,
    provisioner,
)
from tests.support.network.status_server import free_port, running
from tests.support.planning.builders import make_catalogue
from tests.support.processes.child_processes import working_children
from tests.support.waiting import wait_until


@pytest.fixture
async def client(
    kube: Kube, bus: Bus, redis_url: str, metrics: Metrics, recorder: Recorder
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of the scheduler's status server. Its loops do not run: a simulation needs none of them."""
    settings = read(SchedulerSettings, cluster_name=CLUSTER, redis_url=redis_url, questions="open")
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
    async with client.post(
        "/simulate?policy=LowestCost&effort=10", data=io.BytesIO(body)
    ) as response:
        return response.status, await response.json()


@pytest.mark.slow
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
def catalogues(bus: Bus) -> CatalogueStore:
    return CatalogueStore(bus.redis, bus.prefix)


@pytest.fixture
def simulator(catalogues: CatalogueStore) -> Simulator:
    return Simulator(catalogues)


async def ask(
    simulator: Simulator, body: Any, query: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    octets = body if isinstance(body, bytes) else orjson.dumps(body)
    answer = await simulator.answer(octets, query or {})
    return answer.status, orjson.loads(answer.body)


def answer_here(body: Any, query: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """As the simulating process answers, without the process."""
    octets = body if isinstance(body, bytes) else orjson.dumps(body)
    answer = answer_request(Request(octets, query or {}))
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
def test_other_forms_of_bodies(body: Any) -> None:
    assert len(answer_here(body)[1]["machines"]) == 1


def test_options_may_stand_beside_the_objects() -> None:
    body = {"objects": OBJECTS, "policy": "LowestCost", "effort": 10}
    assert answer_here(body)[1]["policy"] == "LowestCost"


@pytest.mark.nightly
async def test_without_a_catalogue_that_of_the_cluster_is_used_or_the_bundled_one(
    simulator: Simulator, catalogues: CatalogueStore
) -> None:
    objects = [pod("a"), node_pool()]
    _, bundled = await ask(simulator, objects)
    assert bundled["machines"][0]["offering"]["zone"].startswith("us-east-1")
    catalogue = make_catalogue()
    await catalogues.put(encode_catalogue(catalogue), catalogue.generation)
    _, own = await ask(simulator, objects)
    assert own["machines"][0]["offering"]["instanceType"] == "m5.x002"
    _, chosen = await ask(simulator, objects, {"region": "us-east-1"})
    assert chosen["machines"][0]["offering"]["zone"].startswith("us-east-1")


@pytest.mark.parametrize(
    ("body", "query", "status", "text"),
    [
        (b"not: json", {}, 400, "the body is no JSON"),
        (b"", {}, 400, "the body is no JSON"),
        (b"null", {}, 400, "the body is no object"),
        (b'"pods"', {}, 400, "the body is no object"),
        (b'{"policy": "LowestCost"}', {}, 400, "in 'objects'"),
        (b'{"objects": [], "items": []}', {}, 400, "in 'objects'"),
        (OBJECTS, {"polcy": "LowestCost"}, 400, "unknown option 'polcy'"),
        (OBJECTS, {"policy": "Cheapest"}, 400, "FewestNodes or LowestCost"),
        (OBJECTS, {"effort": "60000"}, 400, "effort must be at most"),
        ([pod(), provisioner()], {"region": "eu-west-9"}, 400, "eu-west-9"),
        (b"[" + b"{}," * MOST_OBJECTS + b"{}]", {}, 413, "objects"),
    ],
)
def test_requests_that_cannot_be_answered_say_why(
    body: Any, query: dict[str, str], status: int, text: str
) -> None:
    found = answer_here(body, query)
    assert found[0] == status
    assert text in found[1]["error"]


def test_nothing_usable_is_422_with_every_fault() -> None:
    status, found = answer_here([{"kind": "Pod"}, {"kind": "NodePool"}])
    assert status == 422
    assert [one["field"] for one in found["faults"]] == ["metadata.name", "metadata.name"]


@pytest.mark.parametrize("body", [[], {"objects": []}, {"kind": "List", "items": []}])
def test_nothing_at_all_is_422_with_what_to_send(body: Any) -> None:
    status, found = answer_here(body)
    assert status == 422
    assert found["error"].startswith("the planner uses none of these objects; send pods")
    assert "error" not in answer_here(OBJECTS)[1]


def test_replicas_are_bounded() -> None:
    crowd = controller("Deployment", replicas=2_000_000_000)
    status, found = answer_here([crowd, *OBJECTS])
    assert status == 200
    assert [one["field"] for one in found["faults"]] == ["spec.replicas"]


@pytest.mark.nightly
async def test_a_second_request_at_the_same_time_is_told_to_come_back(
    simulator: Simulator,
) -> None:
    answers = await asyncio.gather(*(ask(simulator, OBJECTS) for _ in range(3)))
    assert sorted(status for status, _ in answers) == [200, 429, 429]
    assert (await ask(simulator, OBJECTS))[0] == 200


def crowd(replicas: int) -> Any:
    """A Deployment whose pods stay apart: one machine each, and much work."""
    found = controller("Deployment", replicas=replicas)
    template = found["spec"]["template"]
    term = {
        "labelSelector": {"matchLabels": template["metadata"]["labels"]},
        "topologyKey": "kubernetes.io/hostname",
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    template["spec"]["affinity"] = {"podAntiAffinity": required}
    return found


@pytest.mark.nightly
async def test_the_scheduler_goes_on_while_a_large_simulation_runs(
    client: aiohttp.ClientSession,
) -> None:
    """20,000 pods that stay apart: it is another process that works, and it is gone when nobody waits."""
    body = orjson.dumps([crowd(20_000), node_pool()])
    request = asyncio.ensure_future(client.post("/simulate", data=body))
    (child,) = await wait_until(working_children, "a process simulates")
    for _ in range(50):
        async with client.get("/healthz") as response:
            assert response.status == 200
    assert not request.done()
    async with client.post("/simulate", data=orjson.dumps(OBJECTS)) as second:
        assert second.status == 429
    request.cancel()
    await wait_until(lambda: not child.is_running(), "the client went away, and the process")
    assert (await post(client, orjson.dumps(OBJECTS)))[0] == 200


@pytest.mark.slow
async def test_a_service_that_stops_takes_its_simulation_with_it(bus: Bus) -> None:
    """F29: nothing is left of it, and the stop does not wait for the answer."""
    simulator, port = Simulator(CatalogueStore(bus.redis, bus.prefix)), free_port()
    question = Question("/simulate", "", simulator.answer, MOST_BYTES)
    service = Service("one", [], Metrics("one"), dict, questions=[question])
    loop = server_loop(Listener(mount([service], SystemClock()), "127.0.0.1", port))
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with running(loop, port):
            body = orjson.dumps([crowd(20_000), node_pool()])
            request = asyncio.ensure_future(session.post("/simulate", data=body))
            await wait_until(working_children, "a process simulates")
        await asyncio.wait([request])
    await wait_until(lambda: not working_children(), "the process is gone")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (replace(BOUNDS, seconds=0.2), "the simulation took longer than 0.2 s"),
        (replace(BOUNDS, memory_bytes=128 << 20), "the simulation needs more than 128 MiB"),
    ],
    ids=["time", "memory"],
)
async def test_a_simulation_beyond_its_bounds_is_refused_in_words(
    bus: Bus, bounds: Bounds, text: str
) -> None:
    simulator = Simulator(CatalogueStore(bus.redis, bus.prefix), bounds)
    status, found = await ask(simulator, [crowd(20_000), node_pool()])
    assert status == 503
    assert text in found["error"]
    assert working_children() == []


def test_an_answer_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulate_module, "MOST_ANSWER_BYTES", 100)
    status, found = answer_here(OBJECTS)
    assert status == 413
    assert "send fewer pods" in found["error"]
