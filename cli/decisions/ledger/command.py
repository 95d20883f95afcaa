"""``dovetail ledger``: its commands, and ``cost``: what pools, namespaces, workloads and labels cost now."""

from __future__ import annotations

import asyncio
import csv
import sys
from typing import Annotated, Any, Literal

import typer

from cli.decisions.ledger.options import HOURS_OF_MONTH, MICRO
from cli.decisions.ledger.regret import regret
from cli.decisions.plan.cluster import Catalogues, Held, read_cluster
from cli.manifests.simulate import RegionOption, documents_of
from cli.options import group
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption, variables_of
from cli.text import counted, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.disruption.candidates import offering_prices
from shared.errors import ConfigurationError
from shared.simulation.inputs import read_inputs
from shared.simulation.ledgers.allocation import IDLE, Charge, charges, summed, without_price
from shared.simulation.ledgers.focus import COLUMNS, rows
from shared.simulation.workloads import MOST_PODS

DIMENSIONS = ("pool", "namespace", "workload")

ledger = group(
    "Show who causes which part of what the machines cost, and what consolidations saved."
)
ledger.command()(regret)

FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", help="Files or directories with the objects, or -; default: the cluster.",
    ),
]  # fmt: skip
ByOption = Annotated[
    str, typer.Option(help="pool, namespace, workload, or label=KEY, a label of pods.")
]
ReportOption = Annotated[
    Literal["table", "json", "csv"],
    typer.Option("--output", "-o", help="csv: a row for each pod, in the columns of FOCUS 1.1."),
]


@ledger.command()
def cost(
    by: ByOption = "namespace",
    filename: FilesOption = None,
    output: ReportOption = "table",
    region: RegionOption = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what the machines cost now, an hour and a month, by pool, namespace, workload or label.

    A pod pays the largest of its parts of its node's allocatable resources (the dominant share); pods that ask for more
    than the node has are scaled down to it; what nobody asked for is (idle). Prices are list prices of the offerings; a
    machine whose price is not known is named and left out. A month has 730 hours. Nothing is changed.

    Exit code 1: the cluster does not answer, or an option is wrong; 2: a file could not be read.

    Examples:

      dovetail ledger cost

      dovetail ledger cost --by label=team -o json

      dovetail ledger cost -o csv > focus.csv
    """
    _require_dimension(by)
    held = _held(filename, directory)
    snapshot = read_inputs(held.documents, Catalogues(held, region or ""), MOST_PODS).snapshot
    found = charges(snapshot)
    unknown = without_price(snapshot.machines, offering_prices(snapshot.catalogue))
    if output == "csv":
        _write_csv(found, snapshot.catalogue.region)
    elif output == "json":
        print_json(document_of(found, by, unknown))
    else:
        _print(document_of(found, by, unknown))


def _require_dimension(by: str) -> None:
    if by not in DIMENSIONS and not (by.startswith("label=") and by != "label="):
        raise ConfigurationError(f"--by must be {', '.join(DIMENSIONS)} or label=KEY, not {by!r}")


def _held(filename: list[str] | None, directory: Any) -> Held:
    if filename:
        return Held(documents_of(filename))
    return asyncio.run(read_cluster(variables_of(directory), frozenset()))


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
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(found, region=region, now=SystemClock().now()))
