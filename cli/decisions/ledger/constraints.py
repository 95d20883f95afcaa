"""``dovetail ledger constraints``: what the rules of each workload cost, by planning without them."""

from __future__ import annotations

import csv
import sys
from typing import Annotated, Any

import typer
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from cli.decisions.ledger.options import FilesOption, ReportOption
from cli.decisions.ledger.sources import snapshot_at, snapshot_now
from cli.decisions.recorded import ClusterOption, StoreOption
from cli.manifests.simulate import EffortOption, NodePriceOption, RegionOption, planner_options
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption
from cli.text import counted, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import Clock, SystemClock
from shared.errors import ConfigurationError
from shared.simulation.ledgers.constraints import Workload
from shared.simulation.ledgers.pricing import Found, Source, constraints_document, priced
from shared.solver.solve import SolverSettings

COLUMNS = ("workload", "costPerHour", "rule", "pricePerHour", "pricePerMonth", "placesMore")

AtOption = Annotated[
    str,
    typer.Option(
        "--at", help="The recorded cluster of this time: 2026-11-25T10:42:00Z, or 2h for two hours ago."
    ),
]  # fmt: skip
PolicyOption = Annotated[
    str | None,
    typer.Option(
        help="Packing policy of pools that do not set one: FewestNodes, LowestCost or Balanced. Default: as "
        "recorded with --at, otherwise FewestNodes.",
        show_default=False,
    ),
]
MostOption = Annotated[
    int, typer.Option("--most", min=1, help="Look at so many workloads at most, the dearest first.")
]
SecondsOption = Annotated[
    float, typer.Option(min=1, help="Begin no further plan after so many seconds.")
]


COLUMNS_OF_PROGRESS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())


def constraints(
    filename: FilesOption = None,
    at: AtOption = "",
    most: MostOption = 20,
    seconds: SecondsOption = 300.0,
    policy: PolicyOption = None,
    effort: EffortOption = None,
    node_price: NodePriceOption = None,
    output: ReportOption = "table",
    region: RegionOption = None,
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what the rules of each workload cost: spread, affinity, anti-affinity, pinned zones, arch, capacity and
    instance types, do-not-disrupt, and PodDisruptionBudgets that allow nothing.

    All pods that may move are planned on new machines, with the rule and without it; the difference is its price. Nodes
    with pods that may not move stay as they are. Rules work together, so prices do not add up. Nothing is changed. The
    cluster is the running one, that of the files, or a recorded one.

    Exit code 1: the cluster does not answer, nothing is recorded, or an option is wrong; 2: a file could not be read.

    Examples:

      dovetail ledger constraints

      dovetail ledger constraints -f cluster.yaml --most 5 -o json

      dovetail ledger constraints --at 2h --policy LowestCost
    """
    if at and filename:
        raise ConfigurationError("-f and --at are two clusters: leave one out")
    clock = SystemClock()
    wanted = planner_options(policy=policy, effort=effort, node_price=node_price).settings
    if at:
        source = snapshot_at(at, clock, store=store, cluster=cluster, directory=directory)
    else:
        source = snapshot_now(filename, region or "", directory, clock.now())
    settings = _changed(
        source.settings, wanted, policy=policy, effort=effort, node_price=node_price
    )
    _print(_priced(source._replace(settings=settings), clock, most, seconds), output)


def _changed(recorded: SolverSettings, wanted: SolverSettings, **given: object) -> SolverSettings:
    """What was not given stays as recorded."""
    names = {"policy": "packing_policy", "effort": "effort", "node_price": "node_price_micro_usd"}
    chosen = [names[name] for name, value in given.items() if value is not None]
    return replace(recorded, **{name: getattr(wanted, name) for name in chosen})


def _priced(source: Source, clock: Clock, most: int, seconds: float) -> Found:
    with _progress() as bar:
        task = bar.add_task("")

        def note(workload: Workload, done: int, rules: int) -> None:
            bar.update(task, description=workload.name, completed=done, total=rules)

        return priced(source, clock, most, seconds, note)


def _progress() -> Progress:
    """On a terminal only, and not where the answer is."""
    console = Console(stderr=True)
    hidden = not console.is_terminal
    return Progress(*COLUMNS_OF_PROGRESS, console=console, transient=True, disable=hidden)


def _print(found: Found, output: str) -> None:
    answer = constraints_document(found)
    if output == "json":
        print_json(answer)
        return
    if output == "csv":
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(answer["rules"])
        return
    if not answer["rules"]:
        print_line("no workload has a rule that could cost anything")
        return
    print_table(
        ("workload", "$/hour now", "rule", "costs $/hour", "$/month", ""),
        (_cells(row) for row in answer["rules"]),
    )
    held = answer["nodesHeld"]
    print_line(
        f"planned anew, the cluster costs ${answer['plannedPerHour']:.4f} an hour"
        + (f"; {counted(held, 'node')} may not be drained, and stay" if held else "")
    )
    if found.left:
        print_line(
            f"{counted(found.left, 'workload')} with rules left out: see --most and --seconds"
        )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    known = row["pricePerHour"] is not None
    places = row["placesMore"]
    more = f"without it {counted(places, 'more pod')} {'has' if places == 1 else 'have'} a place"
    fewer = (
        f"without it {counted(-places, 'pod')} fewer {'has' if places == -1 else 'have'} a place"
    )
    return (
        row["workload"],
        f"{row['costPerHour']:.4f}",
        row["rule"],
        f"{row['pricePerHour']:.4f}" if known else "-",
        f"{row['pricePerMonth']:.2f}" if known else "-",
        "" if known else more if places > 0 else fewer,
    )
