"""The parts of the local stack: processes, their environment and their start order.

Plain data and plain functions; ``local.supervisor`` acts on them. ``docker-compose.yml`` describes the same stack in
containers.

Another process may take a port after it was chosen; the part then fails to start and its error names the port. Ports
are chosen below the range of outgoing connections, which makes that rare.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from local.aws.iam.policies import access_key
from local.cluster.addons.catalogue import USUAL, chosen
from local.redis_server import PASSWORD, address_of, redis_server_command, user_arguments
from shared.distribution.files import packaged
from shared.errors import ConfigurationError

SERVICES = ("watcher", "scheduler", "launcher", "terminator", "interruption")
CONSOLE = "console"
"""The page: a process of its own, which needs no AWS."""
PROJECT = Path(__file__).resolve().parent.parent
"""The folder that holds the packages: a checkout, or the folder into which they are installed."""
HOST = "127.0.0.1"
NAMESPACE = "dovetail"
"""The namespace of the ServiceAccounts and settings in deploy/kubernetes."""
EXISTING_CLUSTER_FILE = "joined.kubeconfig"
"""A file in the stack's directory: the existing cluster on which the stack created objects."""
KUBELETS = "dovetail-local-kubelets"
"""The ServiceAccount of the local kubelets on an existing cluster."""
ACCOUNTS = "accounts"
"""The folder of the services' kubeconfigs in a stack's directory."""
_PORTS = range(20_000, 32_000)
_CLUSTER_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,79}")
"""Valid as an EKS cluster name, and short enough for the name of its queue."""


@dataclass(frozen=True)
class ExistingCluster:
    """A cluster that the stack did not start (``local.foreign``), by its kubeconfig.

    ``accept_any``: accept clusters that look like production clusters of a cloud. ``host``: name or address of the API
    server, which is contacted without a proxy.
    """

    kubeconfig: str
    accept_any: bool = False
    host: str = ""


@dataclass(frozen=True)
class StackSettings:
    """Settings of a local stack, durations in seconds. Empty ``services``: only Redis, the emulator and the cluster."""

    directory: Path
    cluster_name: str = "dovetail-local"
    region: str = "us-west-2"
    port_base: int | None = None
    one_process: bool = False
    services: tuple[str, ...] = SERVICES
    console: bool = False
    """Whether the page runs too; its port is the last one."""
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
    """EKS add-ons that run on every node; see ``local.cluster.addons``."""
    dra_drivers: str = ""
    """Drivers that publish the devices of nodes, with commas; see ``local.cluster.kubelet.device_driver``."""
    mirror_key: str = ""
    """The key with which the services sign the mirror's entries; when empty, the supervisor creates one."""
    cluster_url: str = ""
    """URL of the embedded API server in all kubeconfigs, such as that of a proxy; when empty, its own."""
    cluster: ExistingCluster | None = None
    """An existing cluster that replaces the embedded one."""
    preview_types: str = ""
    """Instance types without a price in AWS, with commas."""
    extra: dict[str, str] = field(default_factory=dict)
    """Further variables for the services, by their names in ``shared.settings``."""

    def __post_init__(self) -> None:
        """Raises ConfigurationError for values that single parts would otherwise refuse in their logs."""
        chosen(self.addons)
        if not _CLUSTER_NAME.fullmatch(self.cluster_name):
            raise ConfigurationError(
                f"invalid cluster name {self.cluster_name[:100]!r}; use up to 80 letters, digits, - and _, "
                "starting with a letter or digit"
            )

    def to_json(self) -> bytes:
        """The form in which the supervisor process reads the settings."""
        return TypeAdapter(StackSettings).dump_json(self, indent=1)

    @staticmethod
    def from_json(text: bytes) -> StackSettings:
        """The inverse of ``to_json``."""
        return TypeAdapter(StackSettings).validate_json(text)


@dataclass(frozen=True)
class Part:
    """One process of the stack. It is ready when all ``probes`` answer."""

    name: str
    command: list[str]
    environment: dict[str, str]
    probes: tuple[str, ...]
    ready_within: float
    fix: str


@dataclass(frozen=True)
class StackPlan:
    """Parts in waves: a wave starts when the wave before it is ready. ``environment`` holds the variables for users."""

    waves: tuple[tuple[Part, ...], ...]
    environment: dict[str, str]


def free_ports(count: int, rng: random.Random, attempts: int = 1_000) -> list[int]:
    """``count`` different ports on which no process listens. Raises ConfigurationError after ``attempts``."""
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
    """Ports of redis, aws, cluster, the services and the console, in that order. Raises ConfigurationError."""
    count = 3 + (1 if settings.one_process else len(settings.services)) + settings.console
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
    """The whole stack for ``ports`` (see ``choose_ports``); ``inherited`` defaults to this process' environment."""
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
    if settings.console:
        waves[-1] = (*waves[-1], _console(settings, ports[-1], ports[0], clean | shared))
    return StackPlan(tuple(wave for wave in waves if wave), shared)


def clean_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """``inherited`` without the variables that would direct a part to a real account, cluster or proxy."""
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
    """The content of ``.dovetail/env``: the variables for kubectl, an AWS client and the services."""
    redis, aws = ports[0], ports[1]
    urls = zip(settings.services, service_urls(settings, ports[3:]), strict=False)
    keyed = {"MIRROR_KEY": settings.mirror_key} if settings.mirror_key else {}
    keyed["RECORD_STORE"] = str(settings.directory / "records")
    return {
        "KUBECONFIG": str(settings.directory / "kubeconfig"),
        "AWS_ENDPOINT_URL": f"http://{HOST}:{aws}",
        **dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), settings.region),
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "REDIS_URL": f"redis://{HOST}:{redis}/0",
        "CLUSTER_NAME": settings.cluster_name,
        **keyed,
        **{f"DOVETAIL_{name.upper()}_URL": url for name, url in urls},
        **({_CONSOLE_URL: f"http://{HOST}:{ports[-1]}"} if settings.console else {}),
    }


def service_urls(settings: StackSettings, ports: list[int]) -> list[str]:
    """The status URL of each service, in the order of ``settings.services``."""
    if settings.one_process:
        return [f"http://{HOST}:{ports[0]}/{name}" for name in settings.services]
    return [f"http://{HOST}:{port}" for port in ports]


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def _redis(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    directory = settings.directory / "redis"
    fix = "install a Redis or Valkey server, 6.2 or newer; the first one on PATH is used"
    command = redis_server_command(port, directory) + user_arguments(settings.cluster_name)
    return Part("redis", command, environment, (f"redis://{HOST}:{port}/0",), 15.0, fix)


def _aws(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    own = {
        "AWS_EMULATOR_HOST": HOST,
        "AWS_EMULATOR_PORT": str(port),
        "AWS_EMULATOR_URL_FILE": str(settings.directory / "aws.url"),
        **({"AWS_EMULATOR_PREVIEW_TYPES": preview} if (preview := settings.preview_types) else {}),
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
    """The local kubelets for an existing cluster, with the settings of the embedded cluster."""
    ready = settings.directory / "kubelets.ready"
    own = {
        "KUBECONFIG": str(settings.directory / ACCOUNTS / NAMESPACE / KUBELETS),
        "KUBELETS_READY_FILE": str(ready),
        "STACK_ID": stack_id(settings.directory),
    }
    fix = "read the log; the cluster of --kubeconfig must answer"
    command, environment = _python("local.foreign.kubelets"), cluster.environment | own
    return Part("kubelets", command, environment, (str(ready),), 60.0, fix)


def stack_id(directory: Path) -> str:
    """The label value of this directory's stack on an existing cluster. It is the same for each start, so that the
    objects of a killed one are found."""
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:16]


def _cluster(settings: StackSettings, port: int, environment: dict[str, str]) -> Part:
    own = {
        "CLUSTER_HOST": HOST,
        "CLUSTER_PORT": str(port),
        "CLUSTER_ADVERTISE_URL": settings.cluster_url,
        "KUBECONFIG_OUT": environment["KUBECONFIG"],
        "CRD_DIRECTORY": str(packaged("deploy", "crds")),
        "ACCOUNTS_DIRECTORY": str(packaged("deploy", "kubernetes")),
        "ACCOUNT_KUBECONFIGS": str(settings.directory / ACCOUNTS),
        "BOOT_SECONDS": str(settings.boot_seconds),
        "READY_SECONDS": str(settings.ready_seconds),
        "POD_START_SECONDS": str(settings.pod_start_seconds),
        "ADDONS": settings.addons,
        **({"DRA_DRIVERS": settings.dra_drivers} if settings.dra_drivers else {}),
        "SERVICE_URLS": ",".join(_in_cluster(settings, environment)),
    }
    if settings.extra.get("KARPENTER_LEASE") or environment.get("KARPENTER_LEASE"):
        own["FURTHER_RIGHTS_DIRECTORY"] = str(packaged("deploy", "beside-karpenter"))
    probes = (f"http://{HOST}:{port}/readyz", environment["KUBECONFIG"])
    return Part(
        "cluster", _python("local.cluster"), environment | own, probes, 60.0, _port_fix(port)
    )


def _in_cluster(settings: StackSettings, environment: Mapping[str, str]) -> Iterator[str]:
    """The services as the cluster's Services, for `kubectl dovetail`. In one process they have no port of their own."""
    for name in () if settings.one_process else (*settings.services, CONSOLE):
        if url := environment.get(f"DOVETAIL_{name.upper()}_URL"):
            yield f"{NAMESPACE}/dovetail-{name}={url}"


def _services(
    settings: StackSettings, ports: list[int], redis_port: int, environment: dict[str, str]
) -> tuple[Part, ...]:
    urls = service_urls(settings, ports)
    common = environment | {
        "STATUS_HOST": HOST,
        # One malloc arena: with several, a freed catalogue fragments the memory of other threads.
        "MALLOC_ARENA_MAX": "1",
        "QUESTIONS": "open",
        "POLICY_PRICE_PERIOD": "1m",
        "POD_HINT_PERIOD": "1m",
        "LOG_LEVEL": settings.log_level,
        "BATCH_IDLE_DURATION": settings.batch_idle_duration,
        "BATCH_MAX_DURATION": settings.batch_max_duration,
        "INTERRUPTION_QUEUE": settings.cluster_name,
        "CLUSTER_ENDPOINT": "https://cluster.local",
        "SYSTEM_NAMESPACE": NAMESPACE,
        # One process per service: a killed service must not wait until its own Lease expires.
        "DISABLE_LEADER_ELECTION": "true",
        **settings.extra,
    }
    if settings.one_process and settings.services:
        probes = tuple(f"{url}/readyz" for url in urls)
        # No default credentials: a service without credentials of its own fails instead of acting as administrator.
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
        for name, port, url in zip(settings.services, ports, urls, strict=False)
    )


def _console(
    settings: StackSettings, port: int, redis_port: int, environment: dict[str, str]
) -> Part:
    """The page. It gets no AWS credentials, and the addresses of the services under the names of its settings."""
    own = {name: value for name, value in environment.items() if not name.startswith("AWS_")}
    for name in settings.services:
        own[f"{name}_URL".upper()] = environment[f"DOVETAIL_{name}_URL".upper()]
    own |= {
        "STATUS_HOST": HOST,
        "STATUS_PORT": str(port),
        "CONSOLE_ACCESS": "open",
        "LOG_LEVEL": settings.log_level,
        "SYSTEM_NAMESPACE": NAMESPACE,
        "KUBECONFIG": _account(settings, CONSOLE),
        "REDIS_URL": address_of(CONSOLE, redis_port),
        "MALLOC_ARENA_MAX": "1",
    }
    probes = (f"http://{HOST}:{port}/readyz",)
    return Part(CONSOLE, _python("services.console"), own, probes, 90.0, _port_fix(port))


_CONSOLE_URL = "DOVETAIL_CONSOLE_URL"
_IDENTITY = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "KUBECONFIG", "REDIS_URL")


def _account(settings: StackSettings, service: str) -> str:
    """The kubeconfig of a service's own ServiceAccount, with the rights of deploy/kubernetes."""
    return str(settings.directory / ACCOUNTS / NAMESPACE / f"dovetail-{service}")


def _identity(settings: StackSettings, service: str, redis_port: int) -> dict[str, str]:
    """The service's credentials for Kubernetes, Redis and AWS. All three grant only the rights that deploy/ defines."""
    return {
        "AWS_ACCESS_KEY_ID": access_key(service),
        "AWS_SECRET_ACCESS_KEY": PASSWORD,
        "KUBECONFIG": _account(settings, service),
        "REDIS_URL": address_of(service, redis_port),
    }


def _port_fix(port: int) -> str:
    return f"read the log; if port {port} is taken, pass another --port-base; then run again"
