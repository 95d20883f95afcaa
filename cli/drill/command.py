"""``dovetail drill``: rehearse the two-minute notice for a part of the nodes.

On the local stack the notices are sent through EventBridge and SQS, and the command watches the result. On a real
cluster nothing is changed: the command reads the objects, removes the nodes from its copy and calls the planner.

Objects may change while they are read: a pod that is created or deleted meanwhile counts as it was read first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

import typer

from cli.cloud.control import CloudControl
from cli.drill.cluster_state import ClusterState, Plan, Target, chosen, plan_here, rehearse
from cli.drill.watch import watch
from cli.operations.scheduler_status import VARIABLE, compute, scheduler_url
from cli.options import Output, OutputOption, SeedOption
from cli.printing import print_line, print_table
from cli.stack.cluster import answering
from cli.stack.environment import StackOption, variables_of
from cli.text import print_json
from local.stack import DEFAULT_DIRECTORY
from shared.cloud.catalogue.bundled import BUNDLED_REGION
from shared.errors import ConfigurationError, DovetailError

FAILED_EXIT_CODE = 1
LINE_LIMIT = 20
"""Printed lines of each kind. The JSON output has all of them."""


ZoneOption = Annotated[str, typer.Option(help="Nodes of this zone (* and ?).")]
TypeOption = Annotated[str, typer.Option("--type", help="Nodes of this instance type (* and ?).")]
PercentOption = Annotated[
    float, typer.Option(min=0.1, max=100, help="Only this percentage of them, at least one.")
]
OnDemandOption = Annotated[
    bool, typer.Option("--on-demand", help="Include on-demand nodes, as if they were spot nodes.")
]
SimulateOption = Annotated[
    bool, typer.Option("--simulate", help="Only call the planner, also on the local stack.")
]


def drill(
    zone: ZoneOption = "*",
    instance_type: TypeOption = "*",
    percent: PercentOption = 100.0,
    seed: SeedOption = 0,
    on_demand: OnDemandOption = False,
    simulate: SimulateOption = False,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Rehearse a spot interruption: which pods move, what blocks them, how much of the two minutes is left.

    On the local stack the notices are sent through EventBridge and SQS, and the nodes are terminated. On any other
    cluster nothing is changed: the scheduler simulates where the pods would run. The simulation may choose the
    interrupted spot pools again, which a real interruption excludes for three minutes.

    Exit code 1: a pod did not leave in time, or has no place on another node.

    Examples:

      dovetail drill --zone us-west-2a --type m5.xlarge

      dovetail drill --percent 30 --seed 7

      dovetail drill --zone 'us-west-2?' --simulate -o json
    """
    variables = variables_of(directory)
    selection = Selection(zone, instance_type, percent, seed, on_demand)
    report = asyncio.run(_drill(variables, selection, simulate))
    _print(report, output)
    if report["stayed"] or report["homeless"]:
        raise typer.Exit(FAILED_EXIT_CODE)


@dataclass(frozen=True)
class Selection:
    """Which nodes are interrupted: filters, share and seed."""

    zone: str
    instance_type: str
    percent: float
    seed: int
    on_demand: bool

    def no_match(self) -> str:
        """The error message for the case that no node matches."""
        market, other = ("node", "") if self.on_demand else ("spot node", ", or add --on-demand")
        return (
            f"no {market} of Dovetail is in zone {self.zone} and type {self.instance_type}{other}; "
            "`kubectl get nodes -L topology.kubernetes.io/zone,node.kubernetes.io/instance-type` lists all"
        )

    def matches(self, target: Target) -> bool:
        """Whether zone, instance type and capacity type of the node match."""
        return (
            fnmatchcase(target.zone, self.zone)
            and fnmatchcase(target.instance_type, self.instance_type)
            and (self.on_demand or target.capacity_type == "spot")
        )


async def _drill(
    variables: Mapping[str, str], selection: Selection, simulate: bool
) -> dict[str, Any]:
    async with answering(variables, command="drill") as kube:
        # Before the notices are sent: afterwards the terminator moves pods while they are read.
        cluster = await ClusterState.read(kube)
        matching = [target for target in cluster.targets() if selection.matches(target)]
        targets = chosen(matching, selection.percent, selection.seed)
        if not targets:
            raise ConfigurationError(selection.no_match())
        control = None if simulate else _emulator(variables)
        if control is None:
            return await asyncio.to_thread(rehearse, cluster, targets, _planner(variables, targets))
        notice = {"kind": "spot", "instanceIds": [target.instance for target in targets]}
        await asyncio.to_thread(control.post, "interruptions", notice)
        return await watch(kube, cluster, targets)


def _planner(variables: Mapping[str, str], targets: Sequence[Target]) -> Plan:
    """The scheduler, which knows the types and prices of the region. Without one: the bundled catalogue of one region.

    Raises ConfigurationError when there is no scheduler and the nodes are of another region.
    """
    if not variables.get(VARIABLE) and all(t.zone.startswith(BUNDLED_REGION) for t in targets):
        return plan_here
    url = scheduler_url(variables)
    return lambda documents: dict(compute(url, "simulate", {"objects": documents}))


def _emulator(variables: Mapping[str, str]) -> CloudControl | None:
    """The emulator of the local stack; None when the cluster has none."""
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
    if output == "json":
        print_json(report)
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
        title="simulated: nothing was changed" if report["simulated"] else "interrupted",
    )
    for line in lines_of(report):
        print_line(line)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


def lines_of(report: Mapping[str, Any]) -> list[str]:
    """The lines below the table. A simulation has no times."""
    return [
        _count_of_pods(report),
        *_obstacles(report),
        *_purchases(report),
        *_times(report),
    ]


def _count_of_pods(report: Mapping[str, Any]) -> str:
    if report["simulated"]:
        return (
            f"pods that would move: {report['moved']}, without a place: {len(report['homeless'])}"
        )
    return f"pods that moved: {report['moved']}, that stayed: {len(report['stayed'])}"


def _obstacles(report: Mapping[str, Any]) -> list[str]:
    """Pods that stayed, were blocked or have no place, and the budgets that let few go at a time."""
    return [
        *_some([f"stayed {pod}" for pod in report["stayed"]]),
        *_some([f"blocked {one['pod']}: {one['why']}" for one in report["blocked"]]),
        *(
            f"budget {one['budget']} lets {one['allows']} of {one['pods']} pods go at a time"
            for one in report["narrow"]
        ),
        *_some([f"no place for {one['pod']}: {one['why']}" for one in report["homeless"]]),
    ]


def _purchases(report: Mapping[str, Any]) -> list[str]:
    machines = report["machines"]
    if not machines:
        return []
    verb = "would be" if report["simulated"] else "were"
    return [f"machines that {verb} bought: {len(machines)} ({', '.join(machines)})"]


def _times(report: Mapping[str, Any]) -> list[str]:
    lines = []
    if report["placedAfterSeconds"] is not None:
        lines.append(f"all pods have a node again after {report['placedAfterSeconds']:.0f} s")
    if report["spareSeconds"] is not None:
        lines.append(f"{report['spareSeconds']:.0f} s to spare before the two minutes end")
    elif not report["simulated"]:
        lines.append("the two minutes ended before all nodes were empty")
    return lines


def _some(lines: list[str]) -> list[str]:
    """The first LINE_LIMIT lines, so that a drill of a whole zone does not scroll its table off the screen."""
    more = len(lines) - LINE_LIMIT
    return lines if more <= 0 else [*lines[:LINE_LIMIT], f"... and {more} more: -o json has all"]
