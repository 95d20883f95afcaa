"""``dovetail status``: the current state of services, queues, pods and nodes.

Queries the stack of the directory. When no stack runs there, queries the installation that the environment variables
name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.text import Text

from cli.demo.display import short_name
from cli.demo.snapshot import price_of, true_conditions
from cli.operations.queues import QueueDepth, queue_depths
from cli.printing import print_line, print_table
from cli.stack.cluster import connected
from cli.stack.environment import Environment, StackOption, from_variables, variables_of
from local.probe import probe
from local.stack import DEFAULT_DIRECTORY
from shared.domain import labels
from shared.errors import DovetailError
from shared.kube.client import Object
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, PODS


def status(directory: StackOption = DEFAULT_DIRECTORY) -> None:
    """Show the readiness of the services, the depth of the queues, and the nodes.

    Examples:

      dovetail status

      source .dovetail/env && dovetail status
    """
    if not asyncio.run(_print_status(from_variables(variables_of(directory)))):
        raise typer.Exit(1)


async def _print_status(environment: Environment) -> bool:
    """Print all tables. Returns True when everything answered and is ready."""
    ready = await readiness(environment)
    rows = [
        (name, Text("no", "red"), why) if why else (name, Text("yes", "green"), url)
        for (name, why), url in zip(ready.items(), environment.services.values(), strict=True)
    ]
    print_table(("service", "ready", "url"), rows, title="Services")
    healthy = all(why is None for why in ready.values())
    for part in (_print_queues, _print_cluster):
        try:
            await part(environment)
        except DovetailError as error:
            healthy = False
            Console(stderr=True).print(error.message, style="red", markup=False, soft_wrap=True)
    return healthy


async def readiness(environment: Environment) -> dict[str, str | None]:
    """For each service: None when it is ready, otherwise the reason."""
    targets = [f"{url}/readyz" for url in environment.services.values()]
    answers = await asyncio.gather(*(asyncio.to_thread(probe, target) for target in targets))
    return dict(zip(environment.services, answers, strict=True))


async def _print_queues(environment: Environment) -> None:
    depths = await queue_depths(environment.redis_url, environment.cluster_name)
    headings = ("stream", "read by", "entries", "pending", "drained", "dead letters")
    print_table(headings, map(_queue_row, depths), title="Queues")


def _queue_row(depth: QueueDepth) -> tuple[str, ...]:
    counts = (str(depth.length), str(depth.pending), "yes" if depth.drained else "no")
    return (depth.stream, depth.group, *counts, str(depth.dead))


async def _print_cluster(environment: Environment) -> None:
    async with connected(environment.kubeconfig, command="status") as kube:
        nodes, machines, claims, pods = await asyncio.gather(
            kube.list(NODES), kube.list(MACHINES), kube.list(NODE_CLAIMS), kube.list(PODS)
        )
    headings = ("node", "ready", "type", "zone", "capacity", "$/h", "pods", "pool")
    rows = _node_rows(nodes.items, [*machines.items, *claims.items], pods.items)
    print_table(headings, rows, title="Nodes")
    pending = [pod for pod in pods.items if not pod.get("spec", {}).get("nodeName")]
    print_line(f"{len(pods.items)} pods, {len(pending)} of them without a node")
    for pod in pending[:10]:
        print_line(f"  {pod['metadata']['namespace']}/{pod['metadata']['name']}")


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
    cordoned = ", cordoned" if (node.get("spec") or {}).get("unschedulable") else ""
    return ("yes" if ready else "no") + cordoned
