"""A stack of real processes whose services reach every server through a proxy; nothing of it is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random

from local.aws.iam.policies import access_key
from local.cluster.kubeconfig import write_kubeconfig
from local.redis_server import address_of
from local.stack import Stack, StackSettings
from local.stack_plan import HOST, SERVICES, choose_ports
from local.stack_state import StackState
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError
from shared.kube.client import Kube
from simulation.chaos.processes import RealProcess
from simulation.chaos.redis import RealRedis
from simulation.chaos.servers import ReadEmulator, RealAws, RealCluster, RealNetwork
from simulation.chaos.store import SeenStore
from simulation.chaos.ways.deletions import Deletions
from simulation.chaos.ways.proxy import Proxy
from simulation.chaos.world import ChaosWorld, recorded
from simulation.trace import Trace

CLUSTER = "dovetail-chaos"
PORTS = {"redis": 0, "aws": 1, "api": 2}
"""Place of each server's port among those of a stack."""
MARKS: Mapping[str, Mapping[str, bytes]] = {
    "redis": {name: f"\r\n{name}\r\n".encode() for name in SERVICES},
    "aws": {name: f"Credential={access_key(name)}/".encode() for name in SERVICES},
    "api": {name: f"dovetail-{name}/".encode() for name in SERVICES},
}
"""Server -> service -> what a connection of this service begins with: its user, its access key, its user agent."""
BASES = range(20_000, 31_000)
TRIES = 50
RETRY_SECONDS = 0.2


@asynccontextmanager
async def running(directory: Path, random: Random) -> AsyncIterator[ChaosWorld]:
    """A stack in ``directory``. Raises DovetailError when it does not start."""
    base = _free_base(directory, random)
    async with AsyncExitStack() as stack:
        proxies = {}
        deletions = Deletions(SystemClock().monotonic)
        for server, place in PORTS.items():
            seen = {"on_request": deletions.note} if server == "api" else {}
            proxies[server] = proxy = Proxy(base + place, MARKS[server], random, **seen)
            await proxy.start()
            stack.push_async_callback(proxy.close)
        settings = StackSettings(
            directory,
            cluster_name=CLUSTER,
            port_base=base,
            cluster_url=f"http://{HOST}:{proxies['api'].port}",
            extra=_through(proxies),
        )
        parts = Stack(directory)
        state = await stack.enter_async_context(_started(parts, settings))
        world = await _world(parts, state.environment, base, proxies, deletions)
        stack.push_async_callback(world.kube.close)
        stack.callback(_let_go, world)
        yield world


def _through(proxies: Mapping[str, Proxy]) -> dict[str, str]:
    """The settings with which services reach AWS and Redis; the way to the API server is in their kubeconfigs."""
    redis = {
        f"{name}_REDIS_URL".upper(): address_of(name, proxies["redis"].port) for name in SERVICES
    }
    return {"AWS_ENDPOINT_URL": f"http://{HOST}:{proxies['aws'].port}", **redis}


@asynccontextmanager
async def _started(stack: Stack, settings: StackSettings) -> AsyncIterator[StackState]:
    """The stack during the block; also a start that is interrupted leaves nothing behind."""
    loop = asyncio.get_running_loop()
    start = loop.run_in_executor(None, partial(stack.start, settings, detach=False))
    try:
        yield await asyncio.shield(start)
    finally:
        while not start.done():
            await asyncio.to_thread(stack.stop)  # A supervisor that ends makes the start fail.
            await asyncio.wait([start], timeout=RETRY_SECONDS)
        start.exception()  # It was raised above, or its start was interrupted.
        await asyncio.to_thread(stack.stop)


def _let_go(world: ChaosWorld) -> None:
    world.redis.close()
    for process in (*world.processes.values(), world.redis.process):
        process.resume()


async def _world(
    stack: Stack,
    environment: Mapping[str, str],
    base: int,
    proxies: Mapping[str, Proxy],
    deletions: Deletions,
) -> ChaosWorld:
    clock, aws = SystemClock(), RealAws(environment["AWS_ENDPOINT_URL"])
    begun = clock.monotonic()
    trace = Trace(lambda: clock.monotonic() - begun)
    urls = {name: environment[f"DOVETAIL_{name.upper()}_URL"] for name in SERVICES}
    return ChaosWorld(
        kube=await _users(stack.directory / "users", f"http://{HOST}:{base + PORTS['api']}", clock),
        clock=clock,
        begun=begun,
        trace=trace,
        store=SeenStore(recorded(trace, deletions)),
        emulator=ReadEmulator(aws, CLUSTER, environment["AWS_REGION"]),
        redis=RealRedis(RealProcess(stack, "redis"), environment["REDIS_URL"], proxies["redis"]),
        aws=aws,
        cluster=RealCluster(proxies["api"]),
        network=RealNetwork(proxies),
        processes={f"{name}-0": RealProcess(stack, name, url) for name, url in urls.items()},
    )


async def _users(kubeconfig: Path, url: str, clock: SystemClock) -> Kube:
    """The client of the users: administrators, whose way to the API server has no proxy."""
    write_kubeconfig(kubeconfig, url)
    return await Kube.connect(str(kubeconfig), clock=clock, random=Random(0), user_agent="users")


def _free_base(directory: Path, random: Random) -> int:
    for _ in range(TRIES):
        base = random.choice(BASES)
        try:
            choose_ports(StackSettings(directory, port_base=base), random)
        except ConfigurationError:
            continue
        return base
    raise ConfigurationError("found no free ports for a stack")
