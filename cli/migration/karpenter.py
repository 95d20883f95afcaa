"""``dovetail migrate karpenter``: what becomes of Karpenter's objects, and the handover itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Annotated, Any

import typer

from cli.manifests.simulate import documents_of
from cli.migration.handover import Handover
from cli.migration.inventory import CLAIMS, CLASSES, POOLS, Inventory, read_cluster, sorted_in
from cli.migration.report import BLOCKS, Row, as_json, report_of
from cli.options import OutputOption
from cli.printing import print_line, print_table
from cli.stack.cluster import answering
from cli.stack.environment import StackOption, variables_of
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.api.registry import title_of
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import SystemClock
from shared.domain.nodes import provider_instance_id
from shared.errors import ConfigurationError

MANY_IDS = 1_000
"""Instances that are read in one call of the client, which divides it further."""

FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f",
        help="Report on files instead of a cluster: a file, a directory or - for standard input; repeatable.",
    ),
]  # fmt: skip
PoolOption = Annotated[
    str,
    typer.Option("--pool", help="NodePool/NAME or Provisioner/NAME: release this pool, or halt it with --back."),
]  # fmt: skip
ApplyOption = Annotated[
    bool, typer.Option("--apply", help="Do it. Without this option nothing is changed.")
]
BackOption = Annotated[bool, typer.Option("--back", help="The way back to Karpenter.")]


def karpenter(
    filename: FilesOption = None,
    pool: PoolOption = "",
    apply: ApplyOption = False,
    back: BackOption = False,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Move a cluster from Karpenter to Dovetail without replacing a node, and back.

    Without --apply: a report of what is kept, what changes, what is to be done by hand, and what blocks the handover.
    The instances' tags are part of it if AWS_REGION and CLUSTER_NAME are set.

    --apply halts all pools, stops Karpenter's Deployment, and waits until Dovetail's services hold Karpenter's Lease
    (they must run with KARPENTER_LEASE). From then on Dovetail launches nodes for pending pods and handles
    interruptions, but removes no node for other reasons. --apply --pool NAME then releases one pool for consolidation,
    drift and expiration. --back --apply gives everything back to Karpenter; with --pool it halts that pool again.

    Exit code 1: something blocks the handover, or a step did not succeed. A command can be repeated.

    Examples:

      dovetail migrate karpenter

      dovetail migrate karpenter --apply

      dovetail migrate karpenter --apply --pool NodePool/default

      dovetail migrate karpenter --back --apply

      kubectl get nodepools,ec2nodeclasses -o yaml | dovetail migrate karpenter -f -
    """
    if filename and (apply or back or pool):
        raise ConfigurationError(
            "-f is for the report only; --apply, --back and --pool need a cluster"
        )
    if filename:
        found = sorted_in(documents_of(filename))
        if found.empty:
            kinds = ", ".join((*POOLS, *CLASSES, *CLAIMS))
            raise ConfigurationError(f"no {kinds} or Deployment of Karpenter in the files")
        _print(found, "", output)
        return
    asyncio.run(_on_cluster(variables_of(directory), pool, apply=apply, back=back, output=output))


async def _on_cluster(
    variables: Mapping[str, str], pool: str, *, apply: bool, back: bool, output: Any
) -> None:
    cluster = variables.get("CLUSTER_NAME", "")
    async with (
        answering(variables, command="migrate") as kube,
        cloud_of(variables) as cloud,
    ):
        inventory = await with_instances(await read_cluster(kube), cloud)
        chosen = _pool(inventory, pool) if pool else None
        if not apply:
            _print(inventory, cluster, output)
            return
        handover = Handover(kube, SystemClock(), print_line, cloud)
        await carried_out(handover, inventory, chosen, back=back, cluster=cluster)


async def carried_out(
    handover: Handover,
    inventory: Inventory,
    pool: Mapping[str, Any] | None,
    *,
    back: bool,
    cluster: str,
) -> None:
    """Take the steps that were ordered. Raises ConfigurationError when something blocks them."""
    if pool is not None:
        await (handover.halt_pool(pool) if back else handover.release_pool(inventory, pool))
    elif back:
        await handover.give_back(inventory)
    else:
        blocking = [row for row in report_of(inventory, cluster) if row.verdict == BLOCKS]
        if blocking:
            first = blocking[0]
            raise ConfigurationError(
                f"{len(blocking)} things block the handover; the first: {first.object}: {first.text}. "
                "`dovetail migrate karpenter` shows all. Nothing was changed"
            )
        await handover.take_over(inventory, cluster)


def _pool(inventory: Inventory, name: str) -> Mapping[str, Any]:
    pools = {title_of(one): one for one in inventory.pools}
    if name not in pools:
        raise ConfigurationError(
            f"--pool {name}: there is no such pool; pools are: {', '.join(sorted(pools)) or 'none'}"
        )
    return pools[name]


@asynccontextmanager
async def cloud_of(variables: Mapping[str, str]) -> AsyncIterator[Cloud | None]:
    """The AWS client; None without a region."""
    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or ""
    if not region:
        yield None
        return
    # The AWS client reads credentials from the environment of this process alone.
    os.environ.update({key: value for key, value in variables.items() if key.startswith("AWS_")})
    cloud = await Cloud.connect(
        region=region, endpoint_url=variables.get("AWS_ENDPOINT_URL"), clock=SystemClock(),
        random=Random(), user_agent="dovetail-migrate",
    )  # fmt: skip
    try:
        yield cloud
    finally:
        await cloud.close()


async def with_instances(inventory: Inventory, cloud: Cloud | None) -> Inventory:
    """The inventory with the instances of its claims."""
    if cloud is None:
        return inventory
    named = ((one.get("status") or {}).get("providerID") for one in inventory.claims)
    ids = sorted({provider_instance_id(str(one or "")) for one in named} - {""})
    inventory.instances = {}
    for first in range(0, len(ids), MANY_IDS):
        found = await cloud.ec2.instances(ids=ids[first : first + MANY_IDS])
        inventory.instances |= {one.id: one for one in found}
    return inventory


def _print(inventory: Inventory, cluster: str, output: Any) -> None:
    """Print the report; exit with 1 if something blocks."""
    rows = report_of(inventory, cluster)
    blocks = sum(row.verdict == BLOCKS for row in rows)
    if output == "json":
        print_json({"rows": as_json(rows), "blocks": blocks})
    else:
        print_table(("object", "what", "verdict", "text"), map(_cells, rows))
        print_line(_summary(inventory, blocks))
    if blocks:
        raise typer.Exit(1)


def _cells(row: Row) -> tuple[str, str, str, str]:
    return (escaped(row.object), escaped(row.subject), row.verdict, escaped(row.text))


def _summary(inventory: Inventory, blocks: int) -> str:
    if inventory.live and inventory.instances is None:
        print_line("The instances' tags were not read; set AWS_REGION and CLUSTER_NAME for that.")
    if blocks:
        return f"{blocks} block the handover. Nothing was changed."
    return "Nothing blocks the handover. Nothing was changed; --apply begins it."
