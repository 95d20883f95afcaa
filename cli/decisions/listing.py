"""``dovetail decisions``: the recorded decisions, newest first."""

from __future__ import annotations

from collections import deque
from typing import Annotated, Any

import typer

from cli.decisions.recorded import ClusterOption, StoreOption, period, read_archive
from cli.options import Output, OutputOption
from cli.stack.environment import StackOption
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock, rfc3339
from shared.runtime.archive.reading import Archive
from shared.simulation.decisions.names import MAIN, SHADOW
from shared.simulation.decisions.records import DecisionRecord, PassOutcome, decode_outcome

LONGEST_TEXT = 90


def decisions(
    begin: Annotated[
        str, typer.Option("--from", help="From this time on: 2026-11-25T10:42:00Z, or 2h.")
    ] = "24h",
    end: Annotated[str, typer.Option("--to", help="Up to this time. Default: now.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Passes that found nothing to disrupt too.")
    ] = False,
    most: Annotated[int, typer.Option("--most", min=1, help="Print so many at most.")] = 50,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="The decisions of the shadow scheduler.")
    ] = False,
    output: OutputOption = "table",
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """List what the scheduler decided: time, id, price and one line about each, newest first.

    Read from the archive that the scheduler writes; the scheduler itself is not asked. `dovetail explain decision` has
    all about one, `dovetail replay` makes it again.

    Examples:

      dovetail decisions --from 2h

      dovetail decisions --from 2026-11-25T10:00:00Z --to 2026-11-25T11:00:00Z -o json
    """
    clock = SystemClock()
    first, last = period(begin, end, clock)

    async def read(archive: Archive) -> list[DecisionRecord]:
        found: deque[DecisionRecord] = deque(maxlen=most)
        async for record in archive.records(first, last):
            if everything or not _found_nothing(record):
                found.append(record)
        return list(reversed(found))

    role = SHADOW if shadow else MAIN
    found = read_archive(read, store=store, cluster=cluster, directory=directory, role=role)
    _print(found, output)


def _found_nothing(record: DecisionRecord) -> bool:
    if record.kind != "pass":
        return False
    outcome = decode_outcome(record.kind, record.outcome)
    return isinstance(outcome, PassOutcome) and outcome.command is None


def _print(found: list[DecisionRecord], output: Output) -> None:
    if output == "json":
        print_json([row(record) for record in found])
        return
    if not found:
        typer.echo("no decisions in this time; --all also lists passes that found nothing")
    for record in found:
        cost = "-" if record.cost is None else f"{record.cost:+.4f}"
        text = escaped(record.text)
        text = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
        typer.echo(f"{rfc3339(record.at)}  {record.id:<24}  {record.kind:<10}  {cost:>10}  {text}")


def row(record: DecisionRecord) -> dict[str, Any]:
    """One decision in JSON, without inputs and outcome."""
    return {
        "id": record.id,
        "kind": record.kind,
        "at": rfc3339(record.at),
        "text": record.text,
        "reason": record.reason,
        "cost": record.cost,
        "bound": record.bound,
        "pods": record.pods,
        "created": list(record.created),
        "epoch": record.epoch,
        "version": record.versions.text(),
    }
