"""``dovetail status``: the current state of services, queues, pods and nodes.

Queries the stack of the directory. When no stack runs there, queries the installation that the environment variables
name.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from cli.demo.display import short_name
from cli.demo.snapshot import price_of, true_conditions
from cli.operations.console_queues import depths_of, queues_of
from cli.operations.queues import QueueDepth, queue_depths
from cli.operations.scheduler_status import ask
from cli.printing import print_part, titled_table
from cli.stack.cluster import connected, must_answer
from cli.stack.environment import Environment, StackOption, from_variables, variables_of
from cli.stack.requests import exchange_in_cluster, is_in_cluster
from cli.top.terminal import ended_by_user
from cli.top.words import ago
from local.probe import probe
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.concurrency.waiting import pause
from shared.domain import labels
from shared.errors import ConfigurationError, DovetailError
from shared.kube.client import Kube, Object
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, PODS

PROBE_SECONDS = 5.0
SMALLEST_DOLLARS = 0.00005
"""A smaller difference would be printed as zero."""
PROBE_LIMIT_BYTES = 64 * 2**10


def status(
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Repeat it until q or Ctrl-C is pressed.")
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.5, max=3600.0, help="Between two pictures.")
    ] = 2.0,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show the readiness of the services, the depth of the queues, and the nodes.

    Exit code 1: a service is not ready, or something does not answer.

    Examples:

      dovetail status

      dovetail status --watch --seconds 5

      source .dovetail/env && dovetail status
    """
    if watch and not sys.stdout.isatty():
        raise ConfigurationError("--watch needs a terminal; leave it out to print the status once")
    environment = from_variables(variables_of(directory))
    if not asyncio.run(_watch(environment, seconds) if watch else _print_status(environment)):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Picture:
    """What is printed, and what did not answer."""

    parts: Sequence[RenderableType]
    problems: Sequence[str]
    ready: bool


async def _print_status(environment: Environment) -> bool:
    """Print all tables. Returns True when everything answered and is ready."""
    found = await _picture(environment)
    for part in found.parts:
        print_part(part)
    for problem in found.problems:
        Console(stderr=True).print(problem, style="red", markup=False, soft_wrap=True)
    return found.ready


async def _watch(environment: Environment, seconds: float) -> bool:
    """Draw until the user ends it. Returns whether all was well in the last picture."""
    stop, ready = asyncio.Event(), False
    with ended_by_user(stop), Live(screen=True, auto_refresh=False) as live:
        while not stop.is_set():
            found = await _picture(environment)
            ready = found.ready
            problems = (Text(problem, "red") for problem in found.problems)
            live.update(Group(*found.parts, *problems), refresh=True)
            await pause(stop, seconds)
    return ready


async def _picture(environment: Environment) -> Picture:
    ready = await readiness(environment)
    rows = [
        (name, Text("no", "red"), why) if why else (name, Text("yes", "green"), url)
        for (name, why), url in zip(ready.items(), environment.services.values(), strict=True)
    ]
    parts: list[RenderableType] = titled_table("Services", ("service", "ready", "url"), rows)
    problems = []
    for read in (_queues, _cluster, _policies):
        try:
            parts += await read(environment)
        except DovetailError as error:
            problems.append(error.message)
    healthy = not problems and all(why is None for why in ready.values())
    return Picture(parts, problems, healthy)


async def readiness(environment: Environment) -> dict[str, str | None]:
    """For each service: None when it is ready, otherwise the reason."""
    async with AsyncExitStack() as stack:
        kube = None
        if any(map(is_in_cluster, environment.services.values())):
            kube = await stack.enter_async_context(_connected(environment))
        return await service_readiness(environment.services, kube)


async def service_readiness(
    services: Mapping[str, str], kube: Kube | None
) -> dict[str, str | None]:
    """As ``readiness``. ``services``: name -> address; ``kube``: for addresses behind an API server."""
    answers = await asyncio.gather(
        *(_readiness(f"{url}/readyz", kube) for url in services.values())
    )
    return dict(zip(services, answers, strict=True))


async def _readiness(url: str, kube: Kube | None) -> str | None:
    if kube is None or not is_in_cluster(url):
        return await asyncio.to_thread(probe, url)
    try:
        reply = await exchange_in_cluster(kube, url, seconds=PROBE_SECONDS, limit=PROBE_LIMIT_BYTES)
    except DovetailError as error:
        return error.message
    if reply.status == 200:
        return None
    reasons = reply.document.get("reasons") if isinstance(reply.document, dict) else None
    return "; ".join(map(str, reasons)) if reasons else f"{url} answered {reply.status}"


def _connected(environment: Environment) -> AbstractAsyncContextManager[Kube]:
    return connected(environment.kubeconfig, command="status", context=environment.context)


async def _queues(environment: Environment) -> list[RenderableType]:
    depths = await _depths(environment)
    headings = ("stream", "read by", "entries", "pending", "drained", "dead letters")
    return titled_table("Queues", headings, map(_queue_row, depths))


async def _depths(environment: Environment) -> list[QueueDepth]:
    """From Redis; without its address from the console, which reads it."""
    console = environment.services.get("console", "")
    if environment.redis_url or not is_in_cluster(console):
        return await queue_depths(environment.redis_url, environment.cluster_name)
    async with _connected(environment) as kube:
        return depths_of(await queues_of(kube, console))


def _queue_row(depth: QueueDepth) -> tuple[str, ...]:
    counts = (str(depth.length), str(depth.pending), "yes" if depth.drained else "no")
    return (depth.stream, depth.group, *counts, str(depth.dead))


async def _cluster(environment: Environment) -> list[RenderableType]:
    async with _connected(environment) as kube:
        await must_answer(kube, environment.kubeconfig)
        nodes, machines, claims, pods = await asyncio.gather(
            kube.list(NODES), kube.list(MACHINES), kube.list(NODE_CLAIMS), kube.list(PODS)
        )
    headings = ("node", "ready", "type", "zone", "capacity", "$/h", "pods", "pool")
    rows = _node_rows(nodes.items, [*machines.items, *claims.items], pods.items)
    pending = [pod for pod in pods.items if not pod.get("spec", {}).get("nodeName")]
    return [
        *titled_table("Nodes", headings, rows),
        Text(f"{len(pods.items)} pods, {len(pending)} of them without a node"),
        *(
            Text(f"  {pod['metadata']['namespace']}/{pod['metadata']['name']}")
            for pod in pending[:10]
        ),
    ]


async def _policies(environment: Environment) -> list[RenderableType]:
    """What the pods would cost by each packing policy, where the scheduler has computed that."""
    url = environment.services.get("scheduler", "")
    try:
        answer = await asyncio.to_thread(ask, f"{url}/status") if url else {}
    except DovetailError:
        return []  # the table of services says that it does not answer
    now = SystemClock().now()
    return [Text(line) for line in policy_lines(answer.get("policies") or {}, now)]


def policy_lines(found: Mapping[str, Any], now: float) -> Iterator[str]:
    """One line for each policy whose price is another than that of the one in force; none before the first answer.
    They are computed now and then, so each says how old it is."""
    for name, saves in (found.get("saves") or {}).items():
        if abs(saves) < SMALLEST_DOLLARS:
            continue
        cost, word = found["costs"][name], "less" if saves > 0 else "more"
        yield (
            f"new machines by {name} would cost ${cost:.4f} an hour, ${abs(saves):.4f} {word} than "
            f"by {found['inForce']}, which is in force (computed {ago(max(0.0, now - found['at']))})"
        )


def _node_rows(
    nodes: list[Object], machines: list[Object], pods: list[Object]
) -> Iterator[tuple[str, ...]]:
    prices = {(raw.get("status") or {}).get("providerID"): price_of(raw) for raw in machines}
    for node in nodes:
        values = node["metadata"].get("labels") or {}
        name = node["metadata"]["name"]
        price = prices.get((node.get("spec") or {}).get("providerID"))
        yield (
            short_name(name),
            _is_ready(node),
            values.get(labels.INSTANCE_TYPE, ""),
            values.get(labels.ZONE, ""),
            values.get(labels.CAPACITY_TYPE, ""),
            "" if price is None else f"{price:.4f}",
            str(sum(pod.get("spec", {}).get("nodeName") == name for pod in pods)),
            values.get(labels.PROVISIONER_NAME) or values.get(labels.NODE_POOL, "(fixed)"),
        )


def _is_ready(node: Object) -> str:
    ready = "Ready" in true_conditions(node.get("status") or {})
    words = ["yes" if ready else "no"]
    if (node.get("spec") or {}).get("unschedulable"):
        words.append("cordoned")
    if node["metadata"].get("deletionTimestamp"):
        words.append("terminating")
    return ", ".join(words)
