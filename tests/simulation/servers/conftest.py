"""AWS and the API server on a simulated loop, and real clients of both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import orjson
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from local.aws.moto.resources import import_moto
from local.cluster.kubeconfig import write_kubeconfig
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from simulation.loop import SimulatedLoop, run
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner
from simulation.settings import API, AWS, REGION, RunSettings

import_moto(REGION)

from moto.sqs.models import Queue  # noqa: E402  # after import_moto

from local.aws.ec2.instances import Instance  # noqa: E402
from simulation.servers import moto_time  # noqa: E402
from simulation.servers.aws import AwsServer  # noqa: E402
from simulation.servers.cluster import ClusterServer  # noqa: E402

API_URL = f"http://{API[0]}:{API[1]}"
AWS_URL = f"http://{AWS[0]}:{AWS[1]}"


class LoopClock:
    """The loop's time; its wall time began 1,790,000,000 s after the epoch."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        """Seconds since the epoch."""
        return 1_790_000_000.0 + self._loop.time()

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._loop.time()


@dataclass
class Servers:
    """Both servers, listening, and what they reported."""

    loop: SimulatedLoop
    clock: LoopClock
    aws: AwsServer
    cluster: ClusterServer
    directory: Path
    calls: list[tuple[str, str | None, str]] = field(default_factory=list)
    states: list[tuple[str, str]] = field(default_factory=list)
    changes: list[tuple[str, str, str | None, str, str]] = field(default_factory=list)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of ``work`` on the loop, with the control plane beside it. Once."""
        return run(self.loop, self._beside(work))

    async def _beside(self, work: Coroutine[Any, Any, Any]) -> Any:
        for name, server, address in (("aws", self.aws, AWS), ("api", self.cluster, API)):
            CURRENT.set(Owner(name))
            await self.loop.create_server(server.connection, *address)
        CURRENT.set(Owner("client"))
        beside = self.loop.create_task(self.cluster.run())
        try:
            return await work
        finally:
            beside.cancel()
            await asyncio.wait([beside])

    @asynccontextmanager
    async def client(self, service: str) -> AsyncIterator[Any]:
        """A client of AWS that does not repeat calls."""
        config = AioConfig(
            retries={"max_attempts": 0}, read_timeout=120, user_agent_extra="dovetail-test/1"
        )
        keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        async with get_session().create_client(
            service, region_name=REGION, endpoint_url=AWS_URL, config=config, **keys
        ) as client:
            yield client

    @asynccontextmanager
    async def kube(self, name: str = "dovetail-test") -> AsyncIterator[Kube]:
        """A client of the API server, as administrator."""
        path = self.directory / "admin"
        write_kubeconfig(path, API_URL)
        kube = await Kube.connect(str(path), clock=self.clock, random=Random(1), user_agent=name)
        try:
            yield kube
        finally:
            await kube.close()

    @asynccontextmanager
    async def http(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Plain requests to the API server."""
        async with aiohttp.ClientSession(base_url=API_URL) as session:
            yield session

    def instance(self, instance_id: str) -> Instance:
        """An instance that exists."""
        found = self.aws.emulator.inventory.get(instance_id)
        assert found is not None
        return found

    async def launch(self, number: int = 1) -> list[str]:
        """Ids of new instances that belong to the cluster."""
        async with AsyncExitStack() as stack:
            ec2 = await stack.enter_async_context(self.client("ec2"))
            ssm = await stack.enter_async_context(self.client("ssm"))
            name = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
            image = (await ssm.get_parameter(Name=name))["Parameter"]["Value"]
            subnets = (await ec2.describe_subnets())["Subnets"]
            tags = [{"Key": "kubernetes.io/cluster/simulated", "Value": "owned"}]
            answer = await ec2.run_instances(
                ImageId=image,
                InstanceType="m5.large",
                SubnetId=subnets[0]["SubnetId"],
                MinCount=number,
                MaxCount=number,
                TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
            )
            return [str(row["InstanceId"]) for row in answer["Instances"]]


def new_servers(directory: Path, seed: int = 1) -> Servers:
    """Servers on a loop of their own."""
    network = Network(Random(f"{seed} network"))
    loop = SimulatedLoop(Random(f"{seed} loop"), network)
    clock, settings = LoopClock(loop), RunSettings(seed)
    calls: list[Any] = []
    states: list[Any] = []
    changes: list[Any] = []

    aws = AwsServer(
        settings,
        clock,
        loop,
        Random(f"{seed} aws"),
        on_call=lambda *call: calls.append(call),
        on_change=lambda instance, state: states.append((instance.instance_id, state)),
    )
    cluster = ClusterServer(
        settings,
        clock,
        loop,
        Random(f"{seed} cluster"),
        aws,
        on_change=lambda *change: changes.append(change),
    )
    return Servers(loop, clock, aws, cluster, directory, calls, states, changes)


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """Servers on a loop of their own; moto is as before afterwards."""
    monkeypatch.setattr(Queue, "add_message", Queue.add_message)
    found = new_servers(tmp_path)
    yield found
    found.loop.close()
    moto_time.install(SystemClock())


async def watch_lines(session: aiohttp.ClientSession, path: str) -> AsyncIterator[dict[str, Any]]:
    """The events of a watch. Raises aiohttp's and orjson's errors."""
    async with session.get(path) as answer:
        async for line in answer.content:
            yield orjson.loads(line)
