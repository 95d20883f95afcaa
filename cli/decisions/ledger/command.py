"""``dovetail ledger``: its commands, and ``cost``: what pools, namespaces, workloads and labels cost now."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import typer

from cli.decisions.ledger import over_time
from cli.decisions.ledger.constraints import constraints
from cli.decisions.ledger.options import EndOption, FilesOption
from cli.decisions.ledger.over_time import Spent, print_spent, rows_of, spent_in
from cli.decisions.ledger.regret import regret
from cli.decisions.ledger.sources import snapshot_now
from cli.decisions.recorded import ClusterOption, StoreOption, period, read_archive
from cli.manifests.simulate import RegionOption
from cli.options import group
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption
from cli.text import counted, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.disruption.candidates import offering_prices
from shared.errors import ConfigurationError
from shared.runtime.archive.reading import Archive
from shared.simulation.ledgers.allocation import (
    HOURS_OF_MONTH,
    IDLE,
    MICRO,
    Charge,
    charges,
    summed,
    without_price,
)
from shared.simulation.ledgers.focus import COLUMNS, rows

DIMENSIONS = ("pool", "namespace", "workload")

ledger = group(
    "Show who causes which part of the cost, what rules of workloads cost, and what consolidations saved."
)
ledger.command()(constraints)
ledger.command()(regret)

ByOption = Annotated[
    str, typer.Option(help="pool, namespace, workload, or label=KEY, a label of pods.")
]
PeriodOption = Annotated[
    str, typer.Option("--from", help="What was spent from this time on: 2026-11-25T10:42:00Z, or 24h.")
]  # fmt: skip
EveryOption = Annotated[
    Literal["hour", "day", "month"] | None,
    typer.Option(help="With --from: the parts of the period, by UTC."),
]
ReportOption = Annotated[
    Literal["table", "json", "csv"],
    typer.Option("--output", "-o", help="csv: a row for each pod, in the columns of FOCUS 1.1."),
]


@ledger.command()
def cost(
    by: ByOption = "namespace",
    begin: PeriodOption = "",
    end: EndOption = "",
    every: EveryOption = None,
    filename: FilesOption = None,
    output: ReportOption = "table",
    region: RegionOption = None,
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what the machines cost, now or in a recorded period, by pool, namespace, workload or label.

    A pod pays the largest of its parts of its node's allocatable resources (the dominant share); pods that ask for more
    than the node has are scaled down to it; what nobody asked for is (idle). Prices are list prices of the offerings; a
    machine whose price is not known is named and left out. A month has 730 hours. Nothing is changed. With --from it is
    what a recorded period has cost: each instance from its launch to the order to end it, by the prices of the time.

    Exit code 1: the cluster does not answer, nothing is recorded, or an option is wrong; 2: a file could not be read.

    Examples:

      dovetail ledger cost

      dovetail ledger cost --by label=team -o json

      dovetail ledger cost -o csv > focus.csv

      dovetail ledger cost --from 24h --every hour --by workload
    """
    _require_dimension(by)
    if begin:
        _require_no_files(filename)
        clock = SystemClock()
        first, last = period(begin, end, clock)

        async def read(archive: Archive) -> Spent:
            return await spent_in(archive, first, last, every or "", by)

        _print_period(
            read_archive(read, store=store, cluster=cluster, directory=directory), by, output
        )
        return
    if end or every:
        raise ConfigurationError("--to and --every are for a recorded period: add --from")
    snapshot = snapshot_now(filename, region or "", directory, SystemClock().now()).snapshot
    found = charges(snapshot)
    unknown = without_price(snapshot.machines, offering_prices(snapshot.catalogue))
    if output == "csv":
        _write_csv(found, snapshot.catalogue.region)
    elif output == "json":
        print_json(document_of(found, by, unknown))
    else:
        _print(document_of(found, by, unknown))


def _require_no_files(filename: list[str] | None) -> None:
    if filename:
        raise ConfigurationError(
            "-f is the cluster as it is now: leave it out, or leave out --from"
        )


def _print_period(spent: Spent, by: str, output: str) -> None:
    if output == "csv":
        _write_rows(rows_of(spent))
    elif output == "json":
        print_json(over_time.document_of(spent, by))
    else:
        print_spent(over_time.document_of(spent, by))


def _require_dimension(by: str) -> None:
    if by not in DIMENSIONS and not (by.startswith("label=") and by != "label="):
        raise ConfigurationError(f"--by must be {', '.join(DIMENSIONS)} or label=KEY, not {by!r}")


def document_of(found: list[Charge], by: str, unknown: list[str]) -> dict[str, Any]:
    """Costs in US dollars; ``share`` of the total, from 0 to 1."""
    total = sum(one.micro_usd_per_hour for one in found)
    return {
        "by": by,
        "perHour": total / MICRO,
        "perMonth": total * HOURS_OF_MONTH / MICRO,
        "parts": [
            {
                "name": name,
                "perHour": micro / MICRO,
                "perMonth": micro * HOURS_OF_MONTH / MICRO,
                "share": micro / total,
            }
            for name, micro in summed(found, by).items()
        ],
        "idlePerHour": summed(found, "namespace").get(IDLE, 0) / MICRO,
        "priceNotKnown": unknown,
    }


def _print(answer: dict[str, Any]) -> None:
    print_table(
        (answer["by"], "$/hour", "$/month", "share"),
        (
            (
                one["name"],
                f"{one['perHour']:.4f}",
                f"{one['perMonth']:.2f}",
                f"{one['share']:.1%}",
            )
            for one in answer["parts"]
        ),
    )
    print_line(f"${answer['perHour']:.4f} an hour, ${answer['perMonth']:.2f} a month in all")
    if answer["priceNotKnown"]:
        named = ", ".join(answer["priceNotKnown"][:5])
        count = counted(len(answer["priceNotKnown"]), "machine")
        print_line(f"not counted, the price is not known: {count}: {named}")


def _write_csv(found: list[Charge], region: str) -> None:
    _write_rows(rows(found, region=region, now=SystemClock().now()))


def _write_rows(found: Iterable[dict[str, str]]) -> None:
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
