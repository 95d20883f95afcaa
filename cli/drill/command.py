"""``dovetail drill``: what if a part of the nodes got its two-minute notice now?

On the local stack the warnings are really sent, through EventBridge and SQS, and what happens is watched. On a real
cluster nothing is touched: its objects are read, the nodes left out, and the planner asked.

What may go wrong: objects change while they are read; a pod that comes or goes meanwhile is counted as it was first
seen.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from random import Random
from typing import Annotated, Any

import typer

from cli.cloud.control import CloudControl, given, said
from cli.drill.picture import Picture, Plan, Target, chosen, plan_here, rehearse
from cli.drill.watch import watch
from cli.operations.scheduler_status import VARIABLE, ask, scheduler_url
from cli.stack.running_stack import StackOption, variables_of
from cli.tables import print_table
from local.stack import DEFAULT_DIRECTORY
from shared.cloud.catalogue.bundled import BUNDLED_REGION
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, DovetailError
from shared.kube.client import Kube

STAYED = 1
MOST_LINES = 20
"""Of each sort; the rest is in the JSON."""


class Output(StrEnum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


def drill(
    zone: Annotated[str, typer.Option(help="Nodes of this zone (* and ?).")] = "*",
    instance_type: Annotated[
        str, typer.Option("--type", help="Nodes of this instance type (* and ?).")
    ] = "*",
    percent: Annotated[
        float, typer.Option(min=0.1, max=100, help="Only this share of them, at least one.")
    ] = 100.0,
    seed: Annotated[int, typer.Option(help="Draws the share; the same seed, the same draw.")] = 0,
    on_demand: Annotated[
        bool, typer.Option("--on-demand", help="On-demand nodes too, as if they were spot.")
    ] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Only ask the planner, on the local stack too.")
    ] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="table for people, json for programs.")
    ] = Output.TABLE,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Rehearse a spot interruption: which pods move, what holds them, how much of the two minutes is left.

    On the local stack the warnings are sent through EventBridge and SQS, and the nodes really go. On any other cluster
    nothing is changed: the scheduler is asked what would become of the pods. It may buy from the interrupted
    spot pools again, which the real thing avoids for three minutes.

    Exit code 1: a pod would not have left in time, or would find no place.

    Examples:

      dovetail drill --zone us-west-2a --type m5.xlarge

      dovetail drill --percent 30 --seed 7

      dovetail drill --zone 'us-west-2?' --simulate -o json
    """
    variables = variables_of(directory)
    if not variables.get("KUBECONFIG"):
        raise ConfigurationError(
            "KUBECONFIG is not set; run `dovetail up --detach`, or point KUBECONFIG at your cluster"
        )
    where = Where(zone, instance_type, percent, seed, on_demand)
    report = asyncio.run(_drill(variables, where, simulate))
    _print(report, output)
    if report["stayed"] or report["homeless"]:
        raise typer.Exit(STAYED)


class Where:
    """Which nodes."""

    def __init__(
        self, zone: str, instance_type: str, percent: float, seed: int, on_demand: bool
    ) -> None:
        self.zone, self.instance_type = zone, instance_type
        self.percent, self.seed, self.on_demand = percent, seed, on_demand

    def nobody(self) -> str:
        """What to say when no node matches."""
        market, other = ("node", "") if self.on_demand else ("spot node", ", or add --on-demand")
        return (
            f"no {market} that Dovetail bought is of zone {self.zone} and type {self.instance_type}{other}; "
            "`kubectl get nodes -L topology.kubernetes.io/zone,node.kubernetes.io/instance-type` lists all"
        )

    def takes(self, target: Target) -> bool:
        """By zone, type and capacity type."""
        return (
            fnmatchcase(target.zone, self.zone)
            and fnmatchcase(target.instance_type, self.instance_type)
            and (self.on_demand or target.capacity_type == "spot")
        )


async def _drill(variables: Mapping[str, str], where: Where, simulate: bool) -> dict[str, Any]:
    kube = await Kube.connect(
        variables["KUBECONFIG"],
        clock=SystemClock(),
        random=Random(),
        user_agent="dovetail-drill",
    )
    try:
        picture = await Picture.read(kube)
        targets = chosen(
            [t for t in picture.targets() if where.takes(t)], where.percent, where.seed
        )
        if not targets:
            raise ConfigurationError(where.nobody())
        control = None if simulate else _emulator(variables)
        if control is None:
            return await asyncio.to_thread(rehearse, picture, targets, _planner(variables, targets))
        ids = [target.instance for target in targets]
        await asyncio.to_thread(
            control.post, "interruptions", given({"kind": "spot", "instanceIds": ids})
        )
        return await watch(kube, picture, targets)
    finally:
        await kube.close()


def _planner(variables: Mapping[str, str], targets: Sequence[Target]) -> Plan:
    """The scheduler, which knows the region's types and prices; without it the bundled catalogue of one region.

    Raises ConfigurationError when neither will do.
    """
    if not variables.get(VARIABLE) and all(t.zone.startswith(BUNDLED_REGION) for t in targets):
        return plan_here
    url = scheduler_url(variables)
    return lambda documents: dict(ask(f"{url}/simulate", {"objects": documents}))


def _emulator(variables: Mapping[str, str]) -> CloudControl | None:
    """None: this is no local stack."""
    url = variables.get("AWS_ENDPOINT_URL")
    if not url:
        return None
    control = CloudControl(url)
    try:
        control.get("instances")
    except DovetailError:
        return None
    return control


def _print(report: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        typer.echo(json.dumps(report, indent=2))
        return
    rows = [
        (
            node["node"], node["instanceType"], node["zone"], str(node["pods"]),
            _seconds(node["emptyAfterSeconds"]), _seconds(node["spareSeconds"]),
        )
        for node in report["nodes"]
    ]  # fmt: skip
    print_table(
        ("node", "type", "zone", "pods", "empty after", "to spare"),
        rows,
        title="simulated: nothing was touched" if report["simulated"] else "interrupted",
    )
    for line in lines_of(report):
        said(line)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


def lines_of(report: Mapping[str, Any]) -> list[str]:
    """What stands below the table. A simulation says what would happen, and nothing about time."""
    would = "would be " if report["simulated"] else ""
    homeless = [f"no place for {one['pod']}: {one['why']}" for one in report["homeless"]]
    if report["simulated"]:
        lines = [f"pods that would move: {report['moved']}, without a place: {len(homeless)}"]
    else:
        lines = [f"pods that moved: {report['moved']}, that stayed: {len(report['stayed'])}"]
    lines += _some([f"stayed {pod}" for pod in report["stayed"]])
    lines += _some([f"blocked {one['pod']}: {one['why']}" for one in report["blocked"]])
    lines += [
        f"budget {one['budget']} lets {one['allows']} of {one['pods']} pods go at a time"
        for one in report["narrow"]
    ]
    lines += _some(homeless)
    if report["machines"]:
        names = ", ".join(report["machines"])
        lines.append(f"machines that {would or 'were '}bought: {len(report['machines'])} ({names})")
    if report["placedAfterSeconds"] is not None:
        lines.append(f"all pods have a node again after {report['placedAfterSeconds']:.0f} s")
    if report["spareSeconds"] is not None:
        lines.append(f"{report['spareSeconds']:.0f} s to spare before the two minutes end")
    elif not report["simulated"]:
        lines.append("the two minutes ended before all nodes were empty")
    return lines


def _some(lines: list[str]) -> list[str]:
    """A drill of a whole zone must not scroll its own table away."""
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"... and {more} more: -o json has all"]
