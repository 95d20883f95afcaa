"""Real Redis, a real API server with our kinds, the AWS emulator: services are put together from them by their
constructors, as each ``service.py`` does.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import math
import os
import random
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.session import AioSession

from local.cluster.builtin.manifests import read_manifests
from local.cluster.storage.store import Store
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock, SystemClock
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    EVENTS,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    PROVISIONERS,
    Resource,
)
from shared.metrics import Metrics
from shared.redis.bus import Bus, Envelope
from shared.redis.bus.connection import call, pairs
from shared.redis.messages import Message, decode
from tests.support.clock.fake import FakeClock
from tests.support.cluster.chosen_uids import StoreWithChosenUids
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig
from tests.support.redis.server import RedisServer

CLUSTER = "dovetail-local"
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
CRD_DIRECTORY = Path(__file__).parents[2] / "deploy" / "crds"
_numbers = itertools.count(1)
Published = Callable[[str], Any]


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for the session."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    asyncio.run(server.start())
    yield server.url
    asyncio.run(server.stop())


@pytest.fixture
async def bus(redis_url: str) -> AsyncIterator[Bus]:
    """Streams that no other test sees."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    made = Bus(redis_url, name, clock=SystemClock(), random=random.Random(1))
    await made.start()
    yield made
    await made.close()


async def messages_on(bus: Bus, stream: str) -> list[Message]:
    """Every message, oldest first."""
    return [decode(envelope) for envelope in await envelopes_on(bus, stream)]


async def envelopes_on(bus: Bus, stream: str) -> list[Envelope]:
    """The same, as they were sent."""
    entries = await call(bus.redis, "read a stream", "XRANGE", f"{bus.prefix}{stream}", "-", "+")
    return [Envelope.decode(pairs(fields)) for _, fields in entries]


@pytest.fixture
def published(bus: Bus) -> Published:
    """``await published(stream)``: every message on it, oldest first."""
    return functools.partial(messages_on, bus)


@functools.cache
def our_definitions() -> list[dict[str, Any]]:
    """deploy/crds, read once."""
    return [definition for _, definition in read_manifests(CRD_DIRECTORY)]


def store_with_our_kinds(clock: Clock | None = None) -> Store:
    """What ``kubectl apply -f deploy/crds`` leaves, without its requests."""
    store = StoreWithChosenUids(clock or SystemClock(), random.Random(7))
    for definition in our_definitions():
        store.create(CRDS.plural, definition, group=CRDS.group)
    return store


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[Kube]:
    """A client of an empty API server that knows our kinds."""
    with embedded_api_server(store=store_with_our_kinds()) as url:
        client = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
        yield client
        await client.close()


@pytest.fixture
def clock() -> FakeClock:
    """Time in the test's hand; it begins now, because the API server stamps objects with its own."""
    # Other parts of a test go by the machine's own clock: deadlines pass between the two, and a machine that
    # was started a minute ago counts from there.
    real = SystemClock()
    return FakeClock(seconds=_exact(real.monotonic()), wall=_exact(real.now()))


def _exact(seconds: float) -> float:
    """A few of the bits after the point only: what is added and taken away again leaves no remainder. With all of them
    1,800 s later is 2e-12 s less than that on a machine that runs for four and a half hours.
    """
    return math.floor(seconds * 1024) / 1024


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("test")


@pytest.fixture
def recorder(kube: Kube, clock: FakeClock) -> Recorder:
    """Events are queued; a test that looks at them runs it."""
    return Recorder(kube, clock=clock, random=random.Random(3))


@pytest.fixture
def events(kube: Kube, recorder: Recorder) -> Callable[[], Any]:
    """``await events()``: (reason, object name), as often as it was told, written to the API server first."""

    async def read() -> list[tuple[str, str]]:
        told = [
            (one["reason"], one["involvedObject"]["name"], one.get("count") or 1)
            for one in await written_events(kube, recorder)
        ]
        return sorted((reason, name) for reason, name, count in told for _ in range(count))

    return read


class Control:
    """The emulator's control endpoint."""

    def __init__(self, url: str) -> None:
        self._url = url

    def post(self, path: str, **body: Any) -> Any:
        """Steer the emulator. Its answer."""
        request = urllib.request.Request(
            f"{self._url}/_dovetail/{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}/_dovetail/{path}", timeout=60) as answer:
            return json.loads(answer.read())

    def instances(self) -> list[dict[str, Any]]:
        """Every instance, ended ones included for a while."""
        found: list[dict[str, Any]] = self.get("instances")["instances"]
        return found

    def states(self) -> dict[str, str]:
        return {row["instanceId"]: row["state"] for row in self.instances()}

    def alive(self) -> list[str]:
        """Ids of instances that run or will."""
        return [name for name, state in self.states().items() if state in ("pending", "running")]


@pytest.fixture
def control(aws_emulator_url: str) -> Control:
    """A freshly reset emulator."""
    found = Control(aws_emulator_url)
    found.post("reset")
    return found


_sessions: dict[str, AioSession] = {}
"""By URL: the client library takes 20 ms to make one, and it belongs to no event loop."""


async def connect_cloud(url: str) -> Cloud:
    """Clients of this emulator, on the credentials of the environment; ``close`` them."""
    words: Any = {
        "region": "us-west-2",
        "endpoint_url": url,
        "clock": SystemClock(),
        "random": random.Random(1),
        "user_agent": "dovetail-tests",
    }
    if url not in _sessions:  # the first connection stays open: it owns the thread that parses
        _sessions[url] = (await Cloud.connect(**words)).session
    return Cloud(_sessions[url], executor=ThreadPoolExecutor(max_workers=1), **words)


@pytest.fixture
async def cloud(
    aws_emulator_url: str, control: Control, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cloud]:
    """A connection to it; the machine's own credentials are not used."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    connected = await connect_cloud(aws_emulator_url)
    yield connected
    await connected.close()


async def create_pool(kube: Kube, **spec: Any) -> dict[str, Any]:
    """Provisioner ``default`` and the AWSNodeTemplate it names."""
    discovery = {"karpenter.sh/discovery": CLUSTER}
    await kube.create(
        AWS_NODE_TEMPLATES,
        {
            "metadata": {"name": "default"},
            "spec": {"subnetSelector": discovery, "securityGroupSelector": discovery},
        },
    )
    body = {"metadata": {"name": "default"}, "spec": {"providerRef": {"name": "default"}, **spec}}
    return await kube.create(PROVISIONERS, body)


async def create_machine(
    kube: Kube, name: str = "default-a", types: tuple[str, ...] = ("m5.large",), **spec: Any
) -> dict[str, Any]:
    """A Machine as the scheduler writes it."""
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)},
    ]
    return await kube.create(
        MACHINES,
        {
            "metadata": {
                "name": name,
                "labels": {"karpenter.sh/provisioner-name": "default"},
                "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {
                "requirements": requirements,
                "resources": {"requests": {"cpu": "500m", "pods": "2"}},
                "machineTemplateRef": {
                    "apiVersion": "karpenter.k8s.aws/v1alpha1",
                    "kind": "AWSNodeTemplate",
                    "name": "default",
                },
                **spec,
            },
        },
    )


CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


async def create_node_pool(kube: Kube, name: str = "default", **spec: Any) -> dict[str, Any]:
    """A v1 pool for the class ``default``; ``spec`` is the template's spec."""
    template = {"spec": {"requirements": [], "nodeClassRef": CLASS_REF, **spec}}
    return await kube.create(
        NODE_POOLS, {"metadata": {"name": name}, "spec": {"template": template}}
    )


async def create_node_class(
    kube: Kube, name: str = "default", finalizers: tuple[str, ...] | list[str] = (), **spec: Any
) -> dict[str, Any]:
    """A v1 class that selects what the emulator seeds."""
    terms = [{"tags": {"karpenter.sh/discovery": CLUSTER}}]
    selected = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        "role": f"KarpenterNodeRole-{CLUSTER}",
    }
    metadata = {"name": name, "finalizers": list(finalizers)}
    body = {"metadata": metadata, "spec": {**selected, **spec}}
    return await kube.create(EC2_NODE_CLASSES, body)


async def written_events(kube: Kube, recorder: Recorder) -> list[dict[str, Any]]:
    """The events on the API server, after all that wait in the recorder were written."""
    stop = asyncio.Event()
    stop.set()
    await recorder.run(stop)
    return (await kube.list(EVENTS)).items


async def create_node_claim(
    kube: Kube, name: str = "default-c", types: tuple[str, ...] = ("m5.large",), **spec: Any
) -> dict[str, Any]:
    """A NodeClaim as the scheduler writes it."""
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)},
    ]
    labels = {"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default"}
    finalizers = ["karpenter.sh/termination"]
    return await kube.create(
        NODE_CLAIMS,
        {
            "metadata": {"name": name, "labels": labels, "finalizers": finalizers},
            "spec": {
                "requirements": requirements,
                "resources": {"requests": {"cpu": "500m", "pods": "2"}},
                "nodeClassRef": CLASS_REF,
                **spec,
            },
        },
    )


async def create_node(kube: Kube, provider_id: str, name: str = "node-1") -> dict[str, Any]:
    """A ready node of ours."""
    await kube.create(
        NODES,
        {
            "metadata": {
                "name": name,
                "labels": {"karpenter.sh/provisioner-name": "default"},
                "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {"providerID": provider_id},
        },
    )
    size = {"cpu": "2", "memory": "8Gi", "pods": "29"}
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": size,
        "allocatable": size,
    }
    return await kube.patch(NODES, name, {"status": status}, subresource="status")


async def create_running_pod(kube: Kube, name: str, node: str, **metadata: Any) -> dict[str, Any]:
    """A pod that runs on a node and is ready."""
    await kube.create(
        PODS,
        {
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "main", "image": "app"}],
            },
        },
    )
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await kube.patch(PODS, name, {"status": status}, "default", subresource="status")
