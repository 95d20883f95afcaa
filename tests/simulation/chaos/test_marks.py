"""The proxies know a service by the first bytes of its connections, as the services' own clients send them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from redis.exceptions import RedisError

from local.aws.iam.policies import access_key
from local.cluster.kubeconfig import write_kubeconfig
from local.redis_server import address_of
from local.stack_plan import SERVICES
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.distribution.version import VERSION
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS
from shared.redis.bus.connection import connect
from simulation.chaos.stack import MARKS

Use = Callable[[int, Path], Awaitable[None]]


async def list_objects(port: int, directory: Path) -> None:
    write_kubeconfig(directory / "kubeconfig", f"http://127.0.0.1:{port}", token="t")
    kube = await Kube.connect(
        str(directory / "kubeconfig"),
        clock=SystemClock(),
        random=Random(1),
        user_agent=f"dovetail-launcher/{VERSION}",
    )
    try:
        await kube.list(LAUNCH_RECORDS)
    finally:
        await kube.close()


async def ping_redis(port: int, _directory: Path) -> None:
    redis = connect(address_of("launcher", port))
    try:
        await redis.ping()
    finally:
        await redis.aclose()


async def call_aws(port: int, _directory: Path) -> None:
    cloud = await Cloud.connect(
        region="us-west-2",
        endpoint_url=f"http://127.0.0.1:{port}",
        clock=SystemClock(),
        random=Random(1),
        user_agent="dovetail",
        access_key=(access_key("launcher"), "local"),
    )
    try:
        await cloud.ec2.ping()
    finally:
        await cloud.close()


async def first_bytes(use: Use, directory: Path) -> bytes:
    """What the server gets first."""
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read(65_536)
        if not received.done():
            received.set_result(data)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        using = group.create_task(_tried(use(listening.sockets[0].getsockname()[1], directory)))
        data = await received
        using.cancel()
    listening.close()
    return data


async def _tried(using: Awaitable[None]) -> None:
    """The server gives no answer that a client accepts."""
    with suppress(DovetailError, RedisError):
        await using


@pytest.mark.parametrize(
    ("server", "use"), [("api", list_objects), ("redis", ping_redis), ("aws", call_aws)]
)
async def test_a_connection_begins_with_the_mark_of_its_service(
    server: str, use: Use, tmp_path: Path
) -> None:
    data = await first_bytes(use, tmp_path)
    assert [name for name, mark in MARKS[server].items() if mark in data] == ["launcher"]


def test_every_service_has_a_mark_at_every_server() -> None:
    assert {server: set(marks) for server, marks in MARKS.items()} == {
        server: set(SERVICES) for server in ("redis", "aws", "api")
    }
