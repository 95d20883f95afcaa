"""A release of the chart on the embedded cluster: installed by Helm, and each pod's command as a process.

What a kubelet would do is done by the local supervisor: the command of the container with the variables of its
ConfigMap, its Secret and its own, with a token of its ServiceAccount, once per replica. Of all variables only those
change that say where things are on this machine. Rights are those of the release alone: the cluster begins without
kinds and accounts.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from cli.stack.environment import Environment, from_variables
from deploy.rendering import helm
from local.aws.iam.policies import access_key
from local.cluster.kubeconfig import write_kubeconfig
from local.stack_plan import (
    HOST,
    SERVICES,
    Part,
    StackPlan,
    choose_ports,
    clean_environment,
    free_ports,
    plan_stack,
)
from tests.support.cluster.helm import CHART, CRDS
from tests.support.processes.containers import variables
from tests.support.processes.supervised import supervised
from tests.support.redis.guarded import refused_by
from tests.support.stories.playground import SERVICE_SETTINGS, short_settings

NAMESPACE = "platform"
"""Not the one of the plain manifests: nothing may depend on its name."""
CLUSTER_NAME = "dovetail-local"
OF_THE_CLUSTER = ("CRD_DIRECTORY", "ACCOUNTS_DIRECTORY", "ACCOUNT_KUBECONFIGS", "SERVICE_URLS")
"""What a local stack's cluster has and this one gets from the release."""
LOCAL = {"AWS_DEFAULT_REGION": "us-west-2"}


@dataclass
class Release:
    """The servers of one machine, and a release on them."""

    directory: Path
    environment: Environment
    ports: list[int]

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["kubectl", "--kubeconfig", self.environment.kubeconfig, *words],
            input=stdin, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def helm(self, *words: str) -> str:
        """Raises ConfigurationError with Helm's words."""
        place = ("--kubeconfig", self.environment.kubeconfig, "--namespace", NAMESPACE)
        return helm.helm(*words, *place)

    def install(self, *options: str) -> str:
        """Kinds, passwords and services, as docs/operating/helm.md says. Returns the notes."""
        self.helm("install", "dovetail-crds", str(CRDS), "--create-namespace")
        notes = self.helm(
            "install", "dovetail", str(CHART), "--values", str(self._values()), *options
        )
        self.kubectl("apply", "--server-side", "-f", "-", stdin=self.secrets())
        return notes

    def _values(self) -> Path:
        """Short durations, and where the emulator is."""
        settings = {
            **SERVICE_SETTINGS,
            "CLUSTER_NAME": CLUSTER_NAME,
            "AWS_REGION": "us-west-2",
            "AWS_ENDPOINT_URL": self.environment.aws_endpoint_url,
            "CLUSTER_ENDPOINT": "https://cluster.local",
            "INTERRUPTION_QUEUE": CLUSTER_NAME,
        }
        path = self.directory / "values.yaml"
        values = {"image": {"repository": "registry.example.com/dovetail"}, "settings": settings}
        path.write_text(yaml.safe_dump(values))
        return path

    def secrets(self) -> str:
        """What `dovetail secrets` printed; Redis has its users."""
        return (self.directory / "secrets.yaml").read_text()

    def objects(self, kind: str) -> list[dict[str, Any]]:
        found = self.kubectl("--namespace", NAMESPACE, "get", kind, "-o", "json")
        return list(json.loads(found)["items"])

    def token(self, account: str) -> str:
        words = ("create", "token", account, "--duration=24h")
        return self.kubectl("--namespace", NAMESPACE, *words).strip()

    @contextlib.contextmanager
    def running_pods(self) -> Iterator[list[Part]]:
        """A process for each pod of a service."""
        parts = list(self._parts())
        with supervised(StackPlan((tuple(parts),), {}), self.directory / "pods"):
            yield parts

    def _parts(self) -> Iterator[Part]:
        stored = {
            (kind, one["metadata"]["name"]): one
            for kind in ("configmaps", "secrets")
            for one in self.objects(kind)
        }
        first = dict(zip(SERVICES, self.ports[3:], strict=False))
        for deployment in self.objects("deployments"):
            (container,) = deployment["spec"]["template"]["spec"]["containers"]
            if container["name"] == "redis":
                continue
            account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
            stated = variables(container, lambda kind, name: stored[kind, name])
            for number in range(deployment["spec"]["replicas"]):
                status, probes = free_ports(2, random.Random())
                status = first.pop(container["name"], status)
                yield self._part(container, f"{container['name']}-{number}", account, stated | {
                    "STATUS_PORT": str(status), "PROBE_PORT": str(probes),
                })  # fmt: skip

    def _part(
        self, container: dict[str, Any], name: str, account: str, stated: dict[str, str]
    ) -> Part:
        service = container["name"]
        kubeconfig = self.directory / "pods" / f"{name}.kubeconfig"
        server = yaml.safe_load(Path(self.environment.kubeconfig).read_text())
        url = server["clusters"][0]["cluster"]["server"]
        write_kubeconfig(kubeconfig, url, token=self.token(account), namespace=NAMESPACE)
        at = f"@dovetail-redis.{NAMESPACE}.svc:6379/"
        assert at in stated["REDIS_URL"]
        here = {
            "KUBECONFIG": str(kubeconfig),
            "REDIS_URL": stated["REDIS_URL"].replace(at, f"@{HOST}:{self.ports[0]}/"),
            "STATUS_HOST": HOST,
            "AWS_ACCESS_KEY_ID": access_key(service) if service in SERVICES else "",
            "AWS_SECRET_ACCESS_KEY": "local",
        }
        program = [sys.executable, *container["command"][1:], *container["args"]]
        probe = (
            f"http://{HOST}:{stated['PROBE_PORT']}{container['readinessProbe']['httpGet']['path']}"
        )
        environment = clean_environment({}) | stated | LOCAL | here
        return Part(name, program, environment, (probe,), 120.0, "read the log")

    def forbidden(self) -> list[str]:
        """What the API server refused to accounts of the release."""
        log = self.directory / "servers" / "logs" / "cluster.log"
        entries = [json.loads(line) for line in log.read_bytes().splitlines() if line[:1] == b"{"]
        return [e["reason"] for e in entries if e["message"] == "request forbidden"]

    async def refused_by_redis(self) -> list[str]:
        return await refused_by(self.environment.redis_url)


@contextlib.contextmanager
def release_servers(directory: Path) -> Iterator[Release]:
    """Redis with the printed users, the emulator, and a cluster without kinds and accounts."""
    settings = short_settings(directory / "servers")
    ports = choose_ports(settings, random.Random())
    plan = plan_stack(settings, ports)
    (redis, aws), (cluster,) = plan.waves[0], plan.waves[1]
    own = {name: value for name, value in cluster.environment.items() if name not in OF_THE_CLUSTER}
    users = _print_secrets(directory)
    redis = replace(redis, command=[*_without_users(redis.command), "--aclfile", str(users)])
    waves = ((redis, aws), (replace(cluster, environment=own),))
    with supervised(StackPlan(waves, plan.environment), settings.directory):
        yield Release(directory, from_variables(plan.environment), ports)


def _without_users(command: list[str]) -> list[str]:
    return command[: command.index("--user")]


def _print_secrets(directory: Path) -> Path:
    """The Secrets, and the file of users for Redis; its default user stays, so that the test can look at it."""
    words = ("secrets", "--cluster-name", CLUSTER_NAME, "--namespace", NAMESPACE)
    printed = subprocess.run(
        [sys.executable, "-m", "cli.main", *words, "--agents-namespace", ""],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip
    (directory / "secrets.yaml").write_text(printed)
    (text,) = (
        one["stringData"]["users.acl"]
        for one in yaml.safe_load_all(printed)
        if one["metadata"]["name"] == "dovetail-redis-acl"
    )
    users = directory / "users.acl"
    others = [
        line for line in text.splitlines(keepends=True) if not line.startswith("user default")
    ]
    users.write_text("user default on nopass ~* &* +@all\n" + "".join(others))
    return users
