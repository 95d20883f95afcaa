"""Replicas of the services beside a stack that has none: each runs the code of one tree, as a pod does.

They have the accounts, the Redis users and the AWS keys of the services, and elect leaders by Leases.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

from local.probe import probe
from local.process import spawn
from local.stack import Stack, StackSettings
from local.stack_plan import NAMESPACE, SERVICES, Part, free_ports, plan_stack
from tests.support.stories.playground import short_settings, stack_of, until

REPLICAS = 2
COMMON = {
    "DISABLE_LEADER_ELECTION": "false",
    "LEADER_ELECTION_NAMESPACE": NAMESPACE,
    # The local stack's gates are this version's: the previous one refuses those that it does not know.
    "FEATURE_GATES": "",
}
"""Settings of both versions."""
MIRROR_KEY = "5f" * 32
STOP_SECONDS = 40.0
"""A service ends at most 25 s after SIGTERM; a busy machine takes longer."""


@dataclass
class Replica:
    """One process of one service."""

    service: str
    tree: Path
    url: str
    log: Path
    process: subprocess.Popen[bytes]

    async def ready(self) -> None:
        await until(lambda: probe(f"{self.url}/readyz") is None, f"{self.log.name} is ready")

    async def stop(self) -> None:
        """As a kubelet does it: SIGTERM, and wait. Raises TimeoutExpired."""
        self.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(self.process.wait, STOP_SECONDS)


@dataclass
class Replicas:
    """All replicas of all services on one stack."""

    stack: Stack
    parts: dict[str, Part]
    random: Random
    running: dict[str, list[Replica]] = field(default_factory=lambda: defaultdict(list))
    started: int = 0

    def start(self, service: str, tree: Path) -> Replica:
        """One more replica of ``service``, with the code of ``tree``."""
        part = self.parts[service]
        (port,) = free_ports(1, self.random)
        self.started += 1
        log = self.stack.directory / "logs" / f"{service}-{self.started}-{tree.name}.log"
        environment = {**part.environment, "PYTHONPATH": str(tree), "STATUS_PORT": str(port)}
        process = spawn(
            part.command, environment=environment, log=log, directory=tree, die_with_parent=True
        )
        url = f"{part.environment['STATUS_HOST']}:{port}"
        replica = Replica(service, tree, f"http://{url}", log, process)
        self.running[service].append(replica)
        return replica

    async def start_all(self, tree: Path) -> None:
        """``REPLICAS`` of every service."""
        new = [self.start(service, tree) for service in SERVICES for _ in range(REPLICAS)]
        for replica in new:
            await replica.ready()

    async def roll(self, service: str, tree: Path) -> None:
        """Replace the replicas of a service one by one: the new one is ready before an old one ends."""
        for old in list(self.running[service]):
            await self.start(service, tree).ready()
            self.running[service].remove(old)
            await old.stop()

    def kill_all(self) -> None:
        for replica in (one for several in self.running.values() for one in several):
            replica.process.kill()
            replica.process.wait(10)

    def failures(self) -> list[str]:
        """Lines in the logs of all replicas that say that something is wrong with the code."""
        found = []
        for log in (self.stack.directory / "logs").glob("*-*.log"):
            for line in log.read_text().splitlines():
                if '"level": "ERROR"' in line or line.startswith("Traceback"):
                    found.append(f"{log.name}: {line[:400]}")
        return found


@contextmanager
def replicated_stack(directory: Path, random: Random) -> Iterator[Replicas]:
    """A stack whose services are replicas, none of which runs yet."""
    settings = replace(short_settings(directory, (), **COMMON), mirror_key=MIRROR_KEY)
    with stack_of(settings) as stack:
        replicas = Replicas(stack, _parts(stack, settings, random), random)
        try:
            yield replicas
        finally:
            replicas.kill_all()


def _parts(stack: Stack, settings: StackSettings, random: Random) -> dict[str, Part]:
    """What the stack would run of the services, by name; the ports of their own are replaced later."""
    environment = stack.running().environment
    cluster = _server(Path(environment["KUBECONFIG"]))
    urls = (environment["REDIS_URL"], environment["AWS_ENDPOINT_URL"], cluster)
    ports = [urlsplit(url).port or 0 for url in urls]
    planned = plan_stack(
        replace(settings, services=SERVICES), ports + free_ports(len(SERVICES), random), os.environ
    )
    return {part.name: part for part in planned.waves[-1]}


def _server(kubeconfig: Path) -> str:
    lines = (line.strip() for line in kubeconfig.read_text().splitlines())
    return next(line.removeprefix("server: ") for line in lines if line.startswith("server: "))
