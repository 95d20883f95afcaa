"""Somebody who may write to Redis, or who reaches the services' ports, spends nothing, disrupts nothing and stops
nobody.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from itertools import cycle
from random import Random
from urllib.parse import urlsplit

import aiohttp
import msgspec
import pytest
from redis.asyncio import Redis

from cli.demo import workload
from local.stack_plan import HOST, clean_environment, free_ports
from shared.domain.records import PODS as PODS_KIND
from shared.domain.workloads.pods import Pod
from shared.kube.resources import PODS
from shared.redis.bus import connect
from shared.redis.bus.connection import key_prefix
from shared.redis.mirror.change import MirrorKeys
from shared.redis.mirror.integrity import Digester
from tests.support.planning.builders import make_pods
from tests.support.stories.gaps.observing import (
    Purchases,
    assert_mirror_follows,
    mirrored,
    reached,
)
from tests.support.stories.gaps.workload import PODS_PER_NODE, calm, workload_of
from tests.support.stories.playground import NAMESPACE, SERVICE_SETTINGS, Playground, until
from tests.support.stories.scale_down import passes

pytestmark = pytest.mark.e2e

HEALED_SECONDS = 10.0
FORGED_PODS = 20
GUISES = 3
HALF_OPEN = 70
PROBES = 4
PROBE_SECONDS = 5.0
"""A kubelet's probe waits no longer."""


@asynccontextmanager
async def redis_of(ground: Playground) -> AsyncIterator[Redis]:
    """As anybody who reaches its port."""
    redis = connect(ground.environment.redis_url, connections=1)
    try:
        yield redis
    finally:
        await redis.aclose()


async def ring(redis: Redis, names: MirrorKeys) -> None:
    """Make all readers load the mirror again."""
    await redis.execute_command("XADD", names.stream, "*", "op", "reset")


def guises(pod: Pod) -> Iterator[bytes]:
    """What somebody who knows the code, and no key, may take for a value of the mirror."""
    body = msgspec.json.encode(pod)
    yield body
    for key in ("", "dovetail"):
        yield Digester(key).entry(PODS_KIND, pod.key, body).tag + body


async def forge(ground: Playground, pods: Iterable[Pod]) -> None:
    """Put pods into the mirror that do not exist."""
    names = MirrorKeys(key_prefix(ground.environment.cluster_name))
    fields = [
        part
        for pod, guise in zip(pods, cycle(range(GUISES)), strict=False)
        for part in (pod.key, [*guises(pod)][guise])
    ]
    async with redis_of(ground) as redis:
        await redis.execute_command("HSET", names.objects(PODS_KIND), *fields)
        await ring(redis, names)


async def hide(ground: Playground, keys: Iterable[str]) -> None:
    """Take pods out of it that do."""
    names = MirrorKeys(key_prefix(ground.environment.cluster_name))
    async with redis_of(ground) as redis:
        await redis.execute_command("HDEL", names.objects(PODS_KIND), *keys)
        await ring(redis, names)


async def test_what_is_forged_into_the_mirror_buys_nothing_and_disrupts_nothing(
    playground: Playground,
) -> None:
    """First twenty pods that do not exist, then none of three that run."""
    await workload_of(playground, PODS_PER_NODE)
    (node,) = (await reached(playground, "three pods run", calm(PODS_PER_NODE))).nodes
    purchases = await Purchases.since_now(playground)
    await forge(playground, make_pods(FORGED_PODS, cpu="1"))
    await assert_mirror_follows(playground, HEALED_SECONDS)
    await workload.scale(playground.kube, 2 * PODS_PER_NODE)
    now = await reached(playground, "six pods run", calm(2 * PODS_PER_NODE), purchases)
    assert (len(purchases.bought), purchases.for_nobody) == (1, set())

    uids = await pod_uids(playground)
    running = {key for key in (await mirrored(playground))[PODS_KIND] if "inflate" in key}
    assert len(running) == len(uids)
    await hide(playground, running)
    await assert_mirror_follows(playground, HEALED_SECONDS)
    await passes(playground, 2)
    after = await playground.look()
    assert [one.name for one in after.machines] == [one.name for one in now.machines]
    assert not any(one.tainted or one.cordoned or one.leaving for one in after.nodes)
    assert node.name in {one.name for one in after.nodes}
    assert await pod_uids(playground) == uids


async def pod_uids(ground: Playground) -> set[str]:
    """Of the workload's pods."""
    listed = await ground.kube.list(PODS, NAMESPACE, label_selector="app=inflate")
    return {raw["metadata"]["uid"] for raw in listed.items}


@contextmanager
def service_beside(ground: Playground, **variables: str) -> Iterator[None]:
    """A second interruption service, for this story alone."""
    stack = ground.stack
    own = SERVICE_SETTINGS | variables
    environment = clean_environment(os.environ) | stack.running().environment | own
    with (stack.directory / "logs" / "interruption-beside.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.interruption"],
            env=environment, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def half_open(url: str) -> Iterator[list[socket.socket]]:
    """Connections whose requests never end."""
    address = urlsplit(url)
    with ExitStack() as stack:
        opened = []
        for _ in range(HALF_OPEN):
            one = stack.enter_context(socket.create_connection((HOST, address.port), timeout=10))
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: somebody\r\nX-More:")
            opened.append(one)
        yield opened


async def status_of(url: str) -> int:
    """Of one answer, on a connection of its own, as a kubelet asks. Raises TimeoutError as late as it gives up."""
    timeout = aiohttp.ClientTimeout(total=PROBE_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        return answer.status


async def test_connections_that_never_ask_do_not_keep_the_probes_out(
    playground: Playground,
) -> None:
    """Seventy on the probes' port, seventy on the status port, of a service that runs in a stack."""
    status, probes = (f"http://{HOST}:{port}" for port in free_ports(2, Random()))
    ports = {"STATUS_PORT": status.rpartition(":")[2], "PROBE_PORT": probes.rpartition(":")[2]}

    async def ready() -> bool:
        with suppress(aiohttp.ClientError):
            return await status_of(f"{probes}/readyz") == 200
        return False

    with service_beside(playground, **ports):
        await until(ready, "the service is ready")
        with half_open(status), half_open(probes):
            for path in ("/healthz", "/readyz") * PROBES:
                assert await status_of(probes + path) == 200
            assert await status_of(f"{status}/status") == 200
