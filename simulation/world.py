"""The simulated world: network, servers, services, and the record of what happens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from shared.concurrency.clock import Clock
from shared.distribution.version import COMMIT_VARIABLE
from shared.kube.client import Kube
from shared.runtime.environment import Entry
from simulation.determinism import WALL_START_SECONDS
from simulation.loop import START_SECONDS, SimulatedLoop
from simulation.network.connections import Network
from simulation.processes import SimulatedProcess
from simulation.servers.aws import AwsServer
from simulation.servers.cluster import ClusterServer
from simulation.servers.redis import RedisServer
from simulation.settings import (
    AWS,
    CLUSTER,
    MIRROR_KEY,
    REDIS,
    REGION,
    SERVICES,
    RunSettings,
)
from simulation.trace import Trace


class TrueClock:
    """The simulated time without the errors of any process' clock."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        """Seconds since the epoch."""
        return WALL_START_SECONDS + self._loop.time()

    def monotonic(self) -> float:
        """Virtual seconds."""
        return self._loop.time()


@dataclass
class World:
    """Everything that users, faults and invariants act on or look at."""

    settings: RunSettings
    loop: SimulatedLoop
    clock: Clock
    network: Network
    trace: Trace
    redis: RedisServer
    cluster: ClusterServer
    aws: AwsServer
    processes: dict[str, SimulatedProcess]
    kube: Kube
    """The users' client, as administrator of the cluster."""

    @property
    def store(self) -> Any:
        """The objects of the cluster, without HTTP."""
        return self.cluster.store

    @property
    def emulator(self) -> Any:
        """The state of AWS, without HTTP."""
        return self.aws.emulator

    @property
    def elapsed(self) -> float:
        """Simulated seconds since the start."""
        return self.loop.time() - START_SECONDS

    def random_of(self, name: str) -> Random:
        """A generator of its own for each purpose, so that one purpose does not disturb another."""
        return Random(f"{self.settings.seed} {name}")


def service_environment(directory: Path, settings: RunSettings) -> dict[str, str]:
    """The environment variables of all services; kubeconfigs are in ``directory``."""
    own = {f"{name}_KUBECONFIG".upper(): str(directory / f"dovetail-{name}") for name in SERVICES}
    return {
        **own,
        "KUBECONFIG": str(directory / "admin"),
        "REDIS_URL": f"redis://{REDIS[0]}:{REDIS[1]}/0",
        "AWS_ENDPOINT_URL": f"http://{AWS[0]}:{AWS[1]}",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "CLUSTER_NAME": CLUSTER,
        "CLUSTER_ENDPOINT": "https://cluster.local",
        "INTERRUPTION_QUEUE": CLUSTER,
        "SYSTEM_NAMESPACE": "dovetail",
        "MIRROR_KEY": MIRROR_KEY,
        "BATCH_IDLE_DURATION": f"{settings.batch_idle_seconds:g}s",
        "BATCH_MAX_DURATION": f"{settings.batch_max_seconds:g}s",
        "LOG_LEVEL": "error",
        "RECORD_STORE": settings.records,
        COMMIT_VARIABLE: "simulated",  # else git is asked, in real time
        **settings.variables,
    }


def set_environment(values: Mapping[str, str]) -> None:
    """Replace every variable that a service could read."""
    for name in [
        name for name in os.environ if name.startswith(("AWS_", "KUBE", "OTEL_", "REDIS_"))
    ]:
        del os.environ[name]
    os.environ.update(values)


def processes_of(
    entries: Mapping[str, Entry[Any]],
    replicas: int,
    loop: SimulatedLoop,
    network: Network,
    on_event: Callable[[str, str], None],
) -> dict[str, SimulatedProcess]:
    """All replicas of all services by name, such as ``scheduler-0``; none is started."""
    return {
        f"{service}-{number}": SimulatedProcess(
            f"{service}-{number}", entry, loop, network, on_event
        )
        for service, entry in entries.items()
        for number in range(replicas)
    }
