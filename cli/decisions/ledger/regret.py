"""``dovetail ledger regret``: what each recorded consolidation saved, against what it promised."""

from __future__ import annotations

import csv
import sys
from typing import Annotated, Any

import typer

from cli.decisions.ledger.options import BeginOption, EndOption, ReportOption
from cli.decisions.plan.rendering import duration
from cli.decisions.recorded import ClusterOption, StoreOption, period, read_archive
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption
from cli.text import counted, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.regret import account_row, regret_document, regret_of, total_row
from shared.simulation.ledgers.regret import Regret

COLUMNS = (
    "id", "at", "pools", "method", "reason", "promisedPerHour", "seconds", "promised", "saved", "movedPods",
    "promisedMoves", "moveCost", "net", "until",
)  # fmt: skip


def regret(
    begin: BeginOption = "24h",
    end: EndOption = "",
    most: Annotated[
        int, typer.Option("--most", min=1, help="Print so many commands at most, the newest.")
    ] = 20,
    output: ReportOption = "table",
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show for each consolidation what it saved, against what it promised, and how many pods it moved.

    Read from the archive. A command saves the price of the machines that it removed, less that of its replacements,
    until one of the nodes that took its pods goes, or now. What is bought again in the same pool meanwhile counts
    against the latest command. NET is what was saved less the assumed cost of the moves (CONSOLIDATION_MOVE_COST): a
    negative one is a regret.

    Exit code 1: nothing is recorded of this time, or a part of the archive is damaged.

    Examples:

      dovetail ledger regret --from 168h

      dovetail ledger regret --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z -o csv > regret.csv
    """
    clock = SystemClock()
    first, last = period(begin, end, clock)

    async def read(archive: Archive) -> tuple[Regret, int]:
        return await regret_of(archive, first, last)

    found, gaps = read_archive(read, store=store, cluster=cluster, directory=directory)
    if output == "csv":
        _write_csv(found, last)
    elif output == "json":
        print_json(regret_document(found, first, last, gaps))
    else:
        _print(found, last, most, gaps)


def _print(found: Regret, end: float, most: int, gaps: int) -> None:
    newest = list(found.accounts.values())[::-1]
    if not newest:
        print_line("no consolidation started in this time")
    else:
        print_table(
            ("at", "id", "pool", "reason", "$/h", "for", "saved $", "of $", "pods", "net $", "until"),
            ([*_cells(account_row(account, end))] for account in newest[:most]),
        )  # fmt: skip
        print_table(
            ("pool", "reason", "commands", "saved $", "of $", "pods", "net $", "regretted"),
            ([*_total_cells(total_row(total))] for total in found.totals(end)),
            title="In all",
        )
    if len(newest) > most:
        print_line(f"the newest {most} of {counted(len(newest), 'command')}; --most shows more")
    if gaps:
        print_line(f"not complete: {gaps} series of the log lack a part")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    rate, promised = row["promisedPerHour"], row["promised"]
    return (
        row["at"],
        row["id"],
        ", ".join(row["pools"]),
        row["reason"],
        "-" if rate is None else f"{rate:.4f}",
        duration(row["seconds"]),
        f"{row['saved']:.4f}",
        "-" if promised is None else f"{promised:.4f}",
        str(row["movedPods"]),
        f"{row['net']:.4f}",
        row["until"],
    )


def _total_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        ", ".join(row["pools"]),
        row["reason"],
        str(row["commands"]),
        f"{row['saved']:.4f}",
        f"{row['promised']:.4f}",
        str(row["movedPods"]),
        f"{row['net']:.4f}",
        str(row["regretted"]),
    )


def _write_csv(found: Regret, end: float) -> None:
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for account in found.accounts.values():
        row = account_row(account, end)
        writer.writerow({**row, "pools": " ".join(row["pools"])})
