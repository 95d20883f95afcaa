"""What the local stack consists of: which processes, with which environment, in which order.

Plain data and plain functions; ``local.supervisor`` acts on it. ``docker-compose.yml`` says the
same in containers.

What may go wrong: a port that was free when it was chosen may be taken a moment later; the part
then fails to start and says so. Ports are drawn below the range that outgoing connections use,
which makes that rare.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from local.aws.iam.policies import access_key
from local.cluster.addons.catalogue import USUAL, chosen
from local.redis_server import redis_server_command
from local.redis_users import address_of, user_arguments
from shared.distribution.files import packaged
from shared.errors import ConfigurationError

SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
PROJECT = Path(__file__).resolve().parent.parent
"""Where the packages are: a checkout, or what they are installed in."""
HOST = "127.0.0.1"
NAMESPACE = "dovetail"
"""Of the ServiceAccounts and settings in deploy/kubernetes."""
JOINED = "joined.kubeconfig"
"""In a stack's directory: of the cluster of others that the stack has put something on."""
KUBELETS = "dovetail-local-kubelets"
"""The ServiceAccount of the played nodes on a cluster of others."""
ACCOUNTS = "accounts"
"""The folder of the services' kubeconfigs in a stack's directory."""
_PORTS = range(20_000, 32_000)
_CLUSTER_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
"""As EKS has it, and short enough for a queue with this name."""


@dataclass(frozen=True)
class Joined:
    """A cluster that the stack did not start (``local.foreign``), by its kubeconfig. ``accept_any``: also what looks
    like a cluster of a cloud. ``host``: name or address of its server, which no proxy is asked for.
    """

    kubeconfig: str
    accept_any: bool = False
    host: str = ""


@dataclass(frozen=True)
class StackSettings:
    """How a local stack runs. Durations are in seconds; ``services`` empty: only what is around
    them.
    """

    directory: Path
    cluster_name: str = "dovetail-local"
    region: str = "us-west-2"
    port_base: int | None = None
    one_process: bool = False
    services: tuple[str, ...] = SERVICES
    boot_seconds: float = 5.0
    ready_seconds: float = 1.0
    pod_start_seconds: float = 0.3
    instance_pending_seconds: float = 1.0
    instance_shutting_down_seconds: float = 1.0
    interruption_notice_seconds: float = 120.0
    batch_idle_duration: str = "1s"
    batch_max_duration: str = "10s"
    log_level: str = "info"
    addons: str = USUAL
    """Of EKS, on every node; see ``local.cluster.addons``."""
    mirror_key: str = ""
    """For the services, which know the mirror's entries by it; empty: whoever runs the stack makes one."""
    cluster: Joined | None = None
    """A cluster that runs already, in the place of the embedded one."""
    extra: dict[str, str] = field(default_factory=dict)
    """More variables for the services, by their names in ``shared.settings``."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError for what the parts would refuse one by one, in their logs."""
        chosen(self.addons)
        if not _CLUSTER_NAME.fullmatch(self.cluster_name):
            raise ConfigurationError(
                f"the cluster cannot be named {self.cluster_name[:100]!r}; take up to 80 letters, digits, - and _, "
                "the first a letter or digit"
            )

    def to_json(self) -> dict[str, Any]:
        """For the supervisor, which is another process."""
        return asdict(self) | {"directory": str(self.directory), "services": list(self.services)}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> StackSettings:
        """The inverse of ``to_json``."""
        known = {one.name: document[one.name] for one in fields(StackSettings)}
        known["directory"] = Path(known["directory"])
        known["services"] = tuple(known["services"])
        known["cluster"] = Joined(**known["cluster"]) if known["cluster"] else None
        return StackSettings(**known)


@dataclass(frozen=True)
class Part:
    """One process of the stack. ``probes`` all answer when it is ready."""

    name: str
    command: list[str]
    environment: dict[str, str]
    probes: tuple[str, ...]
    ready_within: float
    fix: str


@dataclass(frozen=True)
class StackPlan:
    """Parts in waves: a wave starts when the one before it is ready. ``environment`` is for
    users.
    """

    waves: tuple[tuple[Part, ...], ...]
    environment: dict[str, str]


def free_ports(count: int, rng: random.Random, attempts: int = 1_000) -> list[int]:
    """``count`` different ports that nobody listens on. Raises ConfigurationError after
    ``attempts``.
    """
    found: list[int] = []
    for _ in range(attempts):
        if len(found) == count:
            return found
        port = rng.choice(_PORTS)
        if port not in found and _is_free(port):
            found.append(port)
    raise ConfigurationError(f"found only {len(found)} of {count} free ports; pass --port-base")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def choose_ports(settings: StackSettings, rng: random.Random) -> list[int]:
    """Ports of redis, aws, cluster and the services, in that order. Raises ConfigurationError."""
    count = 3 + (1 if settings.one_process else len(settings.services))
    if settings.port_base is None:
        return free_ports(count, rng)
    ports = list(range(settings.port_base, settings.port_base + count))
    if ports[0] < 1_024 or ports[-1] > 65_535:
        raise ConfigurationError(
            f"--port-base {settings.port_base}: needs 1024 to {65_536 - count}"
        )
    if taken := [port for port in ports if not _is_free(port)]:
        raise ConfigurationError(
            f"--port-base {settings.port_base}: something listens on {taken}; choose another base"
        )
    return ports


def plan_stack(
    settings: StackSettings, ports: list[int], inherited: Mapping[str, str] | None = None
) -> StackPlan:
    """The whole stack for ``ports`` (see ``choose_ports``); ``inherited`` defaults to this
    process' own.
    """
    shared = user_environment(settings, ports)
    clean = clean_environment(os.environ if inherited is None else inherited)
    if settings.cluster is not None:
        direct = f"{clean['NO_PROXY']},{settings.cluster.host}"
        clean |= {"NO_PROXY": direct, "no_proxy": direct}
    waves = [
        (_redis(settings, ports[0], clean), _aws(settings, ports[1], clean | shared)),
        (_nodes_and_pods(settings, ports[2], clean | shared),),
        _services(settings, ports[3:], ports[0], clean | shared),
    ]
    return StackPlan(tuple(wave for wave in waves if wave), shared)


def clean_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """``inherited`` without anything that would point a part at a real account, cluster or
    proxy.
    """
    dropped = ("AWS_", "KUBE", "REDIS_", "MIRROR_", "DOVETAIL_")
    kept = {name: value for name, value in inherited.items() if not name.startswith(dropped)}
    nowhere = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
    loopback = f"{HOST},localhost"
    return (
        kept
        | nowhere
        | {"AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": loopback, "no_proxy": loopback}
        | {"PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}
    )


def user_environment(settings: StackSettings, ports: list[int]) -> dict[str, str]:
    """What ``.dovetail/env`` says: all that kubectl, an AWS client and the services need."""
    redis, aws = ports[0], ports[1]
    urls = zip(settings.services, service_urls(settings, ports[3:]), strict=True)
    keyed = {"MIRROR_KEY": settings.mirror_key} if settings.mirror_key else {}
    return {
        "KUBECONFIG": str(settings.directory / "kubeconfig"),
        "AWS_ENDPOINT_URL": f"http://{HOST}:{aws}",
        "AWS_REGION": settings.region,
        "AWS_DEFAULT_REGION": settings.region,  # the aws command line knows no other name
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "REDIS_URL": f"redis://{HOST}:{redis}/0",
        "CLUSTER_NAME": settings.cluster_name,
        **keyed,
        **{f"DOVETAIL_{name.upper()}_URL": url for name, url in urls},
    }


def service_urls(settings: StackSettings, ports: list[int]) -> list[str]:
    """Where each service serves its status, in the order of ``settings.services``."""
    if settings.one_process:
        return [f"http://{HOST}:{ports[0]}/{name}" for name in settings.services]
    return [f"http://{HOST}:{port}" for port in ports]


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _redis(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    directory = settings.directory / "redis"
    fix = "install another Redis or Valkey server, 6.2 or newer; the first on PATH is taken"
    command = redis_server_command(port, directory) + user_arguments(settings.cluster_name)
    return Part("redis", command, environment, (f"redis://{HOST}:{port}/0",), 15.0, fix)


def _aws(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    own = {
        "AWS_EMULATOR_HOST": HOST,
        "AWS_EMULATOR_PORT": str(port),
        "AWS_EMULATOR_URL_FILE": str(settings.directory / "aws.url"),
        "INSTANCE_PENDING_SECONDS": str(settings.instance_pending_seconds),
        "INSTANCE_SHUTTING_DOWN_SECONDS": str(settings.instance_shutting_down_seconds),
        "INTERRUPTION_NOTICE_SECONDS": str(settings.interruption_notice_seconds),
    }
    probe = f"http://{HOST}:{port}/_dovetail/health"
    return Part("aws", _python("local.aws"), environment | own, (probe,), 60.0, _port_fix(port))


def _nodes_and_pods(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    cluster = _cluster(settings, port, environment)
    return cluster if settings.cluster is None else _kubelets(settings, cluster)


def _kubelets(settings: StackSettings, cluster: Part) -> Part:
    """Nodes of a cluster that runs already, with the settings of the embedded one."""
    ready = settings.directory / "kubelets.ready"
    own = {
        "KUBECONFIG": str(settings.directory / ACCOUNTS / NAMESPACE / KUBELETS),
        "KUBELETS_READY_FILE": str(ready),
        "STACK_ID": stack_id(settings.directory),
    }
    fix = "read the log; the cluster of --kubeconfig must answer"
    environment = cluster.environment | own
    return Part(
        "kubelets", _python("local.foreign.kubelets"), environment, (str(ready),), 60.0, fix
    )


def stack_id(directory: Path) -> str:
    """What marks the objects of this directory's stack on a cluster of others. The same for each start, so that what a
    killed one left is found.
    """
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]


def _cluster(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    own = {
        "CLUSTER_HOST": HOST,
        "CLUSTER_PORT": str(port),
        "KUBECONFIG_OUT": environment["KUBECONFIG"],
        "CRD_DIRECTORY": str(packaged("deploy", "crds")),
        "ACCOUNTS_DIRECTORY": str(packaged("deploy", "kubernetes")),
        "ACCOUNT_KUBECONFIGS": str(settings.directory / ACCOUNTS),
        "BOOT_SECONDS": str(settings.boot_seconds),
        "READY_SECONDS": str(settings.ready_seconds),
        "POD_START_SECONDS": str(settings.pod_start_seconds),
        "ADDONS": settings.addons,
    }
    probes = (f"http://{HOST}:{port}/readyz", environment["KUBECONFIG"])
    return Part(
        "cluster", _python("local.cluster"), environment | own, probes, 60.0, _port_fix(port)
    )


def _services(
    settings: StackSettings, ports: list[int], redis_port: int, environment: dict[str, str]
) -> tuple[Part, ...]:
    urls = service_urls(settings, ports)
    common = environment | {
        "STATUS_HOST": HOST,
        # One arena: a freed catalogue then leaves no holes in the arenas of other threads.
        "MALLOC_ARENA_MAX": "1",
        "QUESTIONS": "open",
        "LOG_LEVEL": settings.log_level,
        "BATCH_IDLE_DURATION": settings.batch_idle_duration,
        "BATCH_MAX_DURATION": settings.batch_max_duration,
        "INTERRUPTION_QUEUE": settings.cluster_name,
        "CLUSTER_ENDPOINT": "https://cluster.local",
        "SYSTEM_NAMESPACE": NAMESPACE,
        # One process each: a killed one must not wait for its own Lease to run out.
        "DISABLE_LEADER_ELECTION": "true",
        **settings.extra,
    }
    if settings.one_process and settings.services:
        probes = tuple(f"{url}/readyz" for url in urls)
        # Without anybody's name of its own: who is forgotten fails, and is not let in as the administrator.
        own = {name: value for name, value in common.items() if name not in _IDENTITY}
        own["STATUS_PORT"] = str(ports[0])
        for name in settings.services:
            who = _identity(settings, name, redis_port)
            own |= {f"{name}_{variable}".upper(): value for variable, value in who.items()}
        return (Part("services", _python("services"), own, probes, 90.0, _port_fix(ports[0])),)
    return tuple(
        Part(
            name,
            _python(f"services.{name}"),
            common | _identity(settings, name, redis_port) | {"STATUS_PORT": str(port)},
            (f"{url}/readyz",),
            90.0,
            _port_fix(port),
        )
        for name, port, url in zip(settings.services, ports, urls, strict=True)
    )


_IDENTITY = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "REDIS_URL")


def _account(settings: StackSettings, service: str) -> str:
    """The kubeconfig of a service's own ServiceAccount, whose rights deploy/kubernetes says."""
    return str(settings.directory / ACCOUNTS / NAMESPACE / f"dovetail-{service}")


def _identity(settings: StackSettings, service: str, redis_port: int) -> dict[str, str]:
    """Who the service is, to each that it speaks to: all let it do what deploy/ gives it, and no more."""
    return {
        "AWS_ACCESS_KEY_ID": access_key(service),
        "AWS_SECRET_ACCESS_KEY": "local",
        "KUBECONFIG": _account(settings, service),
        "REDIS_URL": address_of(service, redis_port),
    }


def _port_fix(port: int) -> str:
    return f"read the log; if port {port} is taken, pass another --port-base; then run again"
