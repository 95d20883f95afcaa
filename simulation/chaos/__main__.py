"""``python -m simulation.chaos``: users and faults against a stack of real processes."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from rich.console import Console

from local.stack import Stack, StackSettings
from local.stack_plan import SERVICES, choose_ports
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, DovetailError
from shared.kube.client import Kube
from simulation.chaos.parts import RealAws, RealNetwork, RealProcess, RealRedis
from simulation.chaos.proxy import Proxy
from simulation.chaos.scenario import CHAOS, can_strike
from simulation.chaos.world import ChaosWorld, ReadEmulator, ReadStore
from simulation.faults import end_faults
from simulation.faults.plan import faults_of
from simulation.invariants import Liveness, all_liveness
from simulation.users import UserSettings, perform, plan_users

CLUSTER = "dovetail-chaos"
QUIET_SECONDS = 1_200.0
POLL_SECONDS = 10.0
ACTION_SECONDS = 60.0
UNSEEN = {"tasks of a process are bounded"}
"""Promises that cannot be read from outside a process."""
AWS_PORT = 1
"""Place of the emulator's port among those of a stack."""


class Chaos:
    """One run. ``log`` gets a line for everything that is done."""

    def __init__(self, world: ChaosWorld, log: Callable[[str], None]) -> None:
        self._world: Any = world
        self._log, self._begun = log, time.monotonic()
        self.done: Counter[str] = Counter()

    async def run(self, minutes: float, seed: int) -> list[str]:
        """What is broken in the end; empty if all promises hold."""
        people = UserSettings(cluster=CLUSTER, actions_per_minute=4.0, most_pods=80)
        actions = plan_users(Random(f"{seed} users"), minutes, people)
        faults = [
            one for one in faults_of(CHAOS, Random(f"{seed} faults"), minutes) if can_strike(one)
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._act(actions, lambda one: perform(one, self._world)))
            group.create_task(self._act(faults, self._apply))
            group.create_task(asyncio.sleep(minutes * 60))
        await asyncio.to_thread(end_faults, self._world)
        self._say("the faults have ended")
        return await self._quiet()

    async def _act(self, entries: Sequence[Any], act: Callable[[Any], Awaitable[object]]) -> None:
        for entry in entries:
            await asyncio.sleep(max(0.0, entry.at_seconds - (time.monotonic() - self._begun)))
            self._say(entry.text)
            try:
                await self._world.read()
                async with asyncio.timeout(ACTION_SECONDS):
                    await act(entry)
            except (DovetailError, OSError, TimeoutError) as error:
                self._say(f"  failed: {error}")

    async def _apply(self, fault: Any) -> None:
        self.done[fault.kind] += 1
        await fault.apply(self._world)

    async def _quiet(self) -> list[str]:
        promised = [one for one in all_liveness() if one.name not in UNSEEN]
        deadline = time.monotonic() + QUIET_SECONDS
        while True:
            missing = await self._missing(promised)
            if not missing or time.monotonic() > deadline:
                return missing
            self._say(f"not yet: {missing[0]}")
            await asyncio.sleep(POLL_SECONDS)

    async def _missing(self, promised: Sequence[Liveness]) -> list[str]:
        try:
            await self._world.read()
            return [f"{one.name}: {text}" for one in promised for text in one.check(self._world)]
        except (DovetailError, OSError) as error:
            return [f"the stack cannot be read: {error}"]

    def _say(self, text: str) -> None:
        self._log(f"{time.monotonic() - self._begun:8.1f}  {text}")


@asynccontextmanager
async def running(directory: Path, random: Random) -> AsyncIterator[ChaosWorld]:
    """A stack whose services reach AWS through a proxy. Raises DovetailError when it does not start."""
    base = _free_base(directory, random)
    proxy = Proxy(base + AWS_PORT)
    await proxy.start()
    settings = StackSettings(
        directory,
        cluster_name=CLUSTER,
        port_base=base,
        extra={"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"},
    )
    stack = Stack(directory)
    state = await asyncio.to_thread(stack.start, settings, detach=False)
    try:
        yield await _world(stack, state.environment, proxy)
    finally:
        await proxy.close()
        await asyncio.to_thread(stack.stop)


async def _world(stack: Stack, environment: dict[str, str], proxy: Proxy) -> ChaosWorld:
    kube = await Kube.connect(
        environment["KUBECONFIG"], clock=SystemClock(), random=Random(0), user_agent="users"
    )
    aws = RealAws(environment["AWS_ENDPOINT_URL"])
    redis = RealRedis(stack, environment["REDIS_URL"])
    urls = {name: environment[f"DOVETAIL_{name.upper()}_URL"] for name in SERVICES}
    return ChaosWorld(
        kube=kube,
        store=ReadStore(kube),
        emulator=ReadEmulator(aws, CLUSTER, environment["AWS_REGION"]),
        redis=redis,
        aws=aws,
        network=RealNetwork(proxy, redis),
        processes={f"{name}-0": RealProcess(stack, name, url) for name, url in urls.items()},
    )


def _free_base(directory: Path, random: Random) -> int:
    for _ in range(50):
        base = random.randrange(20_000, 31_000)
        try:
            choose_ports(StackSettings(directory, port_base=base), random)
        except ConfigurationError:
            continue
        return base
    raise ConfigurationError("found no free ports for a stack")


async def main(minutes: float, seed: int) -> int:
    """The exit status: 1 when a promise does not hold in the end."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    with tempfile.TemporaryDirectory(prefix="dovetail-chaos-") as directory:
        async with running(Path(directory), Random()) as world:
            chaos = Chaos(world, console.print)
            missing = await chaos.run(minutes, seed)
            await world.kube.close()
    for text in missing:
        console.print(f"broken: {text}")
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(chaos.done.items()))
    console.print(f"faults: {kinds}")
    console.print(
        f"seed {seed}: {minutes:g} minutes, {chaos.done.total()} faults, {len(missing)} broken"
    )
    return int(bool(missing))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m simulation.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.minutes, options.seed)))
