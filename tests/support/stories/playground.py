"""A whole local stack for end-to-end tests: all processes real, all durations short.

``running_stack`` starts and stops one; ``Playground`` plays scenarios on it and looks at it
through the API server and the emulator, never through Dovetail's own services. ``restore`` brings
it back to an empty cluster, whatever a test left.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, overload

import aiohttp
import pytest
from rich.console import Console

from cli.cloud.emulator import Emulator
from cli.demo.display import Display
from cli.demo.report import Report
from cli.demo.scenarios import SCENARIOS
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import Observer, Snapshot
from cli.demo.story import play
from cli.demo.workload import DEPLOYMENTS
from cli.operations.queues import queue_depths
from cli.stack.environment import Environment, from_variables
from local.probe import request_json
from local.process import ProcessIdentity
from local.stack import Stack, StackSettings
from local.stack_plan import SERVICES
from local.stack_state import PartState, read_environment
from shared.concurrency.clock import SystemClock
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import (
    AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
    EVENTS,
    LAUNCH_RECORDS,
    MACHINES,
    NODE_CLAIMS,
    NODE_POOLS,
    PDBS,
    PODS,
    PROVISIONERS,
    Resource,
)
from tests.support.waiting import PATIENCE_SECONDS, Value, wait_until

NAMESPACE = "default"
STORY_SECONDS = 2 * PATIENCE_SECONDS
"""Long, as a stack has eight processes that start, boot and drain one after another."""
POLL_SECONDS = 0.1
"""Interval between two snapshots of a running stack. Each snapshot needs six requests on a machine with two cores."""
RESET_KINDS = (
    PDBS, DEPLOYMENTS, PODS, PROVISIONERS, NODE_POOLS, MACHINES, NODE_CLAIMS, AWS_NODE_TEMPLATES,
    EC2_NODE_CLASSES,
)  # fmt: skip
TTL_SECONDS = 1
DEMO = DemoSettings(
    boot_seconds=1.0, ready_seconds=0.3, ttl_seconds_after_empty=TTL_SECONDS, expire_seconds=8
)
SERVICE_SETTINGS = {
    "BATCH_IDLE_DURATION": "500ms",
    "BATCH_MAX_DURATION": "1500ms",
    "RESYNC_SECONDS": "3s",
    "GARBAGE_PERIOD": "3s",
    "GARBAGE_GRACE": "5s",
    "DRAIN_MINIMUM": "1s",
    "POLL_SECONDS": "250ms",
    "NOMINATION_MINIMUM": "3s",
    "MESSAGE_MIN_IDLE": "10s",
    "VALIDATION_DELAY": "500ms",
    "DISRUPTION_PERIOD": "500ms",
    "FEATURE_GATES": "Drift=true,NodeOverlay=true,StaticCapacity=true,CapacityBuffer=true,"
    "ProvisioningRequest=true",
    "NOMINATE": "auto",
    "IGNORE_DRA_REQUESTS": "false",
    "AWS_FEATURE_GATES": "NodeClassCEL=true",
}


@overload
async def until(
    reached: Callable[[], Awaitable[Value]],
    what: str,
    *,
    seconds: float = ...,
    show: Callable[[], object] | None = ...,
    every: float = ...,
) -> Value: ...
@overload
async def until(
    reached: Callable[[], Value],
    what: str,
    *,
    seconds: float = ...,
    show: Callable[[], object] | None = ...,
    every: float = ...,
) -> Value: ...
async def until(
    reached: Callable[[], Any],
    what: str,
    *,
    seconds: float = STORY_SECONDS,
    show: Callable[[], object] | None = None,
    every: float = POLL_SECONDS,
) -> Any:
    """``wait_until`` with an interval that leaves the CPU to the running stack."""
    return await wait_until(reached, what, seconds=seconds, show=show, every=every)


def short_settings(
    directory: Path, services: tuple[str, ...] = SERVICES, **extra: str
) -> StackSettings:
    """Settings of a stack with short durations. ``extra``: further variables of the services."""
    return StackSettings(
        directory=directory,
        services=services,
        boot_seconds=DEMO.boot_seconds,
        ready_seconds=DEMO.ready_seconds,
        pod_start_seconds=0.1,
        dra_drivers="gpu.nvidia.com",
        instance_pending_seconds=0.3,
        instance_shutting_down_seconds=0.3,
        extra=SERVICE_SETTINGS | extra,
    )


@contextmanager
def running_stack(
    tmp_path_factory: pytest.TempPathFactory, services: tuple[str, ...] = SERVICES, **extra: str
) -> Iterator[Stack]:
    """Run a stack, and stop it at the end. ``extra``: further variables of its services."""
    with stack_of(short_settings(tmp_path_factory.mktemp("stack"), services, **extra)) as stack:
        yield stack


@contextmanager
def stack_of(settings: StackSettings) -> Iterator[Stack]:
    """Run a stack with these settings, and stop it at the end."""
    stack = Stack(settings.directory)
    stack.start(settings, detach=False)
    try:
        yield stack
    finally:
        stack.stop()
    refused = refusals(stack)
    assert not refused, f"rights that deploy/kubernetes does not give: {refused}"


def refusals(stack: Stack) -> list[str]:
    """Requests that the API server refused to the services, which use their ServiceAccounts of deploy/kubernetes."""
    lines = stack.log_file("cluster").read_bytes().splitlines()
    entries = [json.loads(line) for line in lines if line.startswith(b"{")]
    return [entry["reason"] for entry in entries if entry["message"] == "request forbidden"]


class ShellKubectl:
    """kubectl in a shell that sourced the env file."""

    def __init__(self, stack: Stack) -> None:
        inherited = {"PATH": os.environ["PATH"], "HOME": str(stack.directory)}
        self._environment = inherited | read_environment(stack.environment_file)

    async def __call__(self, *words: str, check: bool = True, stdin: str = "") -> str:
        done = await asyncio.to_thread(
            subprocess.run,
            ["kubectl", *words],
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=150,  # longer than any kubectl is told to wait
            check=False,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    async def apply(self, document: dict[str, Any]) -> None:
        """``kubectl apply -f -``."""
        await self("apply", "-f", "-", stdin=json.dumps(document))

    async def rows(self, *words: str) -> list[list[str]]:
        """The rows of a table, split at blanks, without its heading."""
        return [line.split() for line in (await self("get", *words, "--no-headers")).splitlines()]


def is_leaving(raw: dict[str, Any]) -> bool:
    return bool(raw["metadata"].get("deletionTimestamp"))


def was_tried(raw: dict[str, Any]) -> bool:
    """kube-scheduler has bound the pod, or said why it could not."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "PodScheduled" for condition in conditions)


@dataclass
class Playground:
    """One running stack and a connection to its API server."""

    stack: Stack
    environment: Environment
    kube: Kube
    emulator: Emulator
    logged_before: dict[str, int]
    """Length of each service's log when the playground was created, in bytes."""
    stopped: Counter[str] = field(default_factory=Counter)
    """The number of callers that currently pause a service."""

    def logged(self, service: str) -> list[str]:
        """Messages that one service has logged since the playground was created."""
        with self.stack.log_file(service).open("rb") as log:
            log.seek(self.logged_before[service])
            lines = log.read().rpartition(b"\n")[0].splitlines()
        return [json.loads(line)["message"] for line in lines if line.startswith(b"{")]

    async def play(self, name: str) -> Report:
        """Play one scenario to its end, with all pods in one plan."""
        scenario, display = SCENARIOS[name], Display(Console(file=io.StringIO()))
        async with asyncio.TaskGroup() as group, self.one_plan(scenario.pods):
            story = group.create_task(
                play(scenario, DEMO, self.environment, display, SystemClock())
            )
        return story.result()

    @asynccontextmanager
    async def one_plan(self, pods: int, app: str = "inflate") -> AsyncIterator[None]:
        """Planned is only once so many pods of an application exist and kube-scheduler tried each, however slowly: it
        binds and refuses some fifty a second.
        """

        async def all_tried() -> bool:
            listed = await self.kube.list(PODS, NAMESPACE, label_selector=f"app={app}")
            staying = [pod for pod in listed.items if not is_leaving(pod)]
            return len(staying) == pods and all(map(was_tried, staying))

        async with self.standing_still("scheduler"):
            yield
            await until(all_tried, f"{pods} pods of {app} are tried by kube-scheduler")

    @asynccontextmanager
    async def standing_still(self, service: str) -> AsyncIterator[None]:
        """Pause the service (SIGSTOP) during the context. Contexts may overlap; a stack may lack the service."""
        if service not in self.environment.services:
            yield
            return
        process = await self.process(service)
        self.stopped[service] += 1
        process.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.stopped[service] -= 1
            if not self.stopped[service]:
                process.send(signal.SIGCONT)

    async def look(self) -> Snapshot:
        """The workload, its Machines, nodes and instances now."""
        return await Observer(self.kube, self.emulator).take()

    async def process(self, name: str) -> ProcessIdentity:
        """Wait until the service runs: the supervisor restarts a killed service after a delay."""

        def alive() -> ProcessIdentity | None:
            process = self.part(name).process
            return process if process.alive() else None

        found = await until(alive, f"{name} runs")
        assert found is not None
        return found

    def part(self, name: str) -> PartState:
        """One process of the stack as the supervisor knows it now. Raises KeyError for one that is to be started."""
        return self.stack.running().part(name)

    async def create(self, resource: Resource, document: dict[str, Any]) -> dict[str, Any]:
        namespace = NAMESPACE if resource.namespaced else None
        return await self.kube.create(resource, document, namespace)

    async def condition(self, resource: Resource, name: str, kind: str) -> dict[str, str]:
        """One condition of one object. Raises LookupError while it has none."""
        conditions = (await self.kube.get(resource, name))["status"]["conditions"]
        return next((c for c in conditions if c["type"] == kind), {})

    async def warnings(self, kind: str, name: str) -> list[tuple[str, str]]:
        """(reason, message) of the Warning events about one object that Dovetail wrote."""
        return [
            (event["reason"], event["message"])
            for event in (await self.kube.list(EVENTS)).items
            if event["type"] == "Warning"
            and (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
            and "dovetail" in (event.get("source") or {}).get("component", "")
        ]

    async def no_work_is_left(self) -> bool:
        """No LaunchRecord, and every stream is drained. Raises AssertionError for dead letters."""
        records = (await self.kube.list(LAUNCH_RECORDS)).items
        depths = await queue_depths(self.environment.redis_url, self.environment.cluster_name)
        assert {depth.stream: depth.dead for depth in depths if depth.dead} == {}
        return not records and all(depth.drained for depth in depths)

    async def launched_anything(self) -> bool:
        """Whether CreateFleet was ever called."""
        url = f"{self.environment.aws_endpoint_url}/_dovetail/calls?action=CreateFleet"
        return bool((await asyncio.to_thread(request_json, url))["calls"])

    async def restart_services(self) -> None:
        """Restart every service and wait until it is ready, so that a test measures only its own effects."""
        old = {name: await self.process(name) for name in SERVICES}
        for process in old.values():
            process.send(signal.SIGTERM)

        async def ready() -> bool:
            if any(self.part(name).process == old[name] for name in SERVICES):
                return False
            async with aiohttp.ClientSession() as session:
                for url in self.environment.services.values():
                    try:
                        async with session.get(f"{url}/readyz") as answer:
                            if answer.status != 200:
                                return False
                    except aiohttp.ClientError:
                        return False
            return True

        await until(ready, "five new services", show=self.stack.state)

    async def restore(self) -> None:
        """Delete all objects of a test, and wait until no node and no instance is left."""
        for resource in RESET_KINDS:
            await self._delete_all(resource)
        await until(self._is_empty, "an empty cluster", show=self.stack.state)

    async def _delete_all(self, resource: Resource) -> None:
        namespace = NAMESPACE if resource.namespaced else None
        for raw in (await self.kube.list(resource, namespace)).items:
            try:
                await self.kube.delete(resource, raw["metadata"]["name"], namespace)
            except NotFound:
                continue

    async def _is_empty(self) -> bool:
        now = await self.look()
        pods = (await self.kube.list(PODS, NAMESPACE)).items
        classes = (await self.kube.list(EC2_NODE_CLASSES)).items  # their finalizer takes a moment
        return not (pods or classes or now.machines or now.nodes or now.live_instances)


@asynccontextmanager
async def playground_on(stack: Stack) -> AsyncIterator[Playground]:
    """Connect to ``stack``, and empty it at the end."""
    environment = from_variables(stack.running().environment)
    kube = await Kube.connect(
        environment.kubeconfig, clock=SystemClock(), random=Random(), user_agent="dovetail-tests"
    )
    emulator = Emulator(environment.aws_endpoint_url, environment.cluster_name)
    logs = {name: stack.log_file(name) for name in SERVICES}
    logged = {name: log.stat().st_size for name, log in logs.items() if log.exists()}
    playground = Playground(stack, environment, kube, emulator, logged)
    try:
        yield playground
        await playground.restore()
    finally:
        await kube.close()
