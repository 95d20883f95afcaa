"""``dovetail status``: one look at services, queues, pods and nodes.

Asks the stack of the directory, or the installation that the environment variables name when no
stack runs there.
"""

from __future__ import annotations

import asyncio
import os
from random import Random

import typer
from rich.console import Console
from rich.table import Table

from cli.demo.display import short_name
from cli.environment import Environment, from_variables
from cli.queues import QueueDepth, queue_depths
from cli.up import DirectoryOption
from local.probe import probe
from local.stack import DEFAULT_DIRECTORY, Stack
from shared.clock import SystemClock
from shared.domain import labels
from shared.errors import DovetailError
from shared.kube.client import Kube, Object
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, PODS


def status(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Show whether the services are ready, what waits in the queues, and which nodes there are.

    Examples:

      dovetail status

      source .dovetail/env && dovetail status
    """
    state = Stack(directory).state()
    running = state is not None and state.supervisor.alive()
    variables = state.environment if state is not None and running else os.environ
    if not asyncio.run(_print_status(from_variables(variables), Console())):
        raise typer.Exit(1)


async def _print_status(environment: Environment, console: Console) -> bool:
    """Print all tables; whether everything answered and is ready."""
    ready = await _readiness(environment)
    table = _table("Services", "service", "ready", "url")
    for name, why in ready.items():
        shown = "[green]yes[/green]" if why is None else "[red]no[/red]"
        table.add_row(name, shown, environment.services[name] if why is None else why)
    console.print(table)
    healthy = all(why is None for why in ready.values())
    for part in (_print_queues, _print_cluster):
        try:
            await part(environment, console)
        except DovetailError as error:
            healthy = False
            Console(stderr=True).print(error.message, style="red", markup=False, soft_wrap=True)
    return healthy


async def _readiness(environment: Environment) -> dict[str, str | None]:
    targets = [f"{url}/readyz" for url in environment.services.values()]
    answers = await asyncio.gather(*(asyncio.to_thread(probe, target) for target in targets))
    return dict(zip(environment.services, answers, strict=True))


async def _print_queues(environment: Environment, console: Console) -> None:
    table = _table("Queues", "stream", "read by", "entries", "pending", "drained", "dead letters")
    for depth in await queue_depths(environment.redis_url, environment.cluster_name):
        table.add_row(*_queue_row(depth))
    console.print(table)


def _queue_row(depth: QueueDepth) -> tuple[str, ...]:
    counts = (str(depth.length), str(depth.pending), "yes" if depth.drained else "no")
    return (depth.stream, depth.group, *counts, str(depth.dead))


async def _print_cluster(environment: Environment, console: Console) -> None:
    kube = await Kube.connect(
        environment.kubeconfig, clock=SystemClock(), random=Random(), user_agent="dovetail-status"
    )
    try:
        nodes, machines, claims, pods = await asyncio.gather(
            kube.list(NODES), kube.list(MACHINES), kube.list(NODE_CLAIMS), kube.list(PODS)
        )
    finally:
        await kube.close()
    console.print(_nodes_table(nodes.items, [*machines.items, *claims.items], pods.items))
    pending = [pod for pod in pods.items if not pod.get("spec", {}).get("nodeName")]
    console.print(f"{len(pods.items)} pods, {len(pending)} of them without a node")
    for pod in pending[:10]:
        console.print(f"  {pod['metadata']['namespace']}/{pod['metadata']['name']}", markup=False)


def _nodes_table(nodes: list[Object], machines: list[Object], pods: list[Object]) -> Table:
    prices = {
        (machine.get("status") or {}).get("providerID"): _price(machine) for machine in machines
    }
    table = _table("Nodes", "node", "ready", "type", "zone", "capacity", "$/h", "pods", "pool")
    for node in nodes:
        values = node["metadata"].get("labels") or {}
        name = node["metadata"]["name"]
        table.add_row(
            short_name(name),
            _is_ready(node),
            values.get(labels.INSTANCE_TYPE, ""),
            values.get(labels.ZONE, ""),
            values.get(labels.CAPACITY_TYPE, ""),
            prices.get((node.get("spec") or {}).get("providerID"), ""),
            str(sum(pod.get("spec", {}).get("nodeName") == name for pod in pods)),
            values.get(labels.PROVISIONER_NAME) or values.get(labels.NODE_POOL, "(fixed)"),
        )
    return table


def _price(machine: Object) -> str:
    raw = (machine["metadata"].get("annotations") or {}).get(labels.PRICE_ANNOTATION, "")
    return f"{int(raw) / 1_000_000:.4f}" if raw.isdecimal() else ""


def _is_ready(node: Object) -> str:
    conditions = (node.get("status") or {}).get("conditions") or []
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    cordoned = ", cordoned" if (node.get("spec") or {}).get("unschedulable") else ""
    return ("yes" if ready else "no") + cordoned


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
