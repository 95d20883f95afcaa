"""``dovetail shadow diff``: what the shadow scheduler decided beside the real one."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from cli.decisions.pairing import Compared, compare
from cli.decisions.recorded import (
    CLUSTER,
    ENDPOINT,
    STORE,
    ClusterOption,
    StoreOption,
    only_cluster,
    period,
)
from cli.options import Output, OutputOption, group
from cli.stack.environment import StackOption, variables_of
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock, rfc3339
from shared.errors import NotFound
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.reading import Archive
from shared.simulation.decisions.names import MAIN, SHADOW
from shared.simulation.decisions.records import DecisionRecord

LONGEST_TEXT = 60
shadow = group("Compare a shadow scheduler with the real one.")


@shadow.command()
def diff(
    begin: Annotated[
        str, typer.Option("--from", help="From this time on, or how long ago.")
    ] = "1h",
    end: Annotated[str, typer.Option("--to", help="Up to this time. Default: now.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Decisions that are equal too.")
    ] = False,
    shadow_store: Annotated[
        str, typer.Option("--shadow-store", help="The shadow's archive, if it has one of its own.")
    ] = "",
    output: OutputOption = "table",
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Compare over time what the shadow scheduler (SHADOW=true) decided with what the real one did.

    Plans are compared with plans for the same pods, commands with commands about the same machines, within a minute.
    The shadow starts anew from what really happened, so each pair answers: in this situation, what would it have done?

    Exit code 1: one of the two has recorded nothing in this time.

    Examples:

      dovetail shadow diff --from 24h

      dovetail shadow diff --from 2h --all -o json
    """
    clock = SystemClock()
    first, last = period(begin, end, clock)
    variables = variables_of(directory)
    endpoint = variables.get(ENDPOINT, "")
    address = store or variables.get(STORE, "")

    async def records(place: str, role: str) -> list[DecisionRecord]:
        opened = open_store(place, endpoint_url=endpoint)
        try:
            name = cluster or await only_cluster(opened, variables.get(CLUSTER, ""), place)
            return [one async for one in Archive(opened, name, role).records(first, last)]
        finally:
            await opened.close()

    async def read() -> tuple[list[DecisionRecord], list[DecisionRecord]]:
        return await records(address, MAIN), await records(shadow_store or address, SHADOW)

    real, other = asyncio.run(read())
    for who, found in (("the scheduler", real), ("the shadow scheduler", other)):
        if not found:
            raise NotFound(f"{who} has recorded nothing in this time")
    _print(compare(real, other), everything, output)


def _print(found: Compared, everything: bool, output: Output) -> None:
    pairs = [pair for pair in found.pairs if everything or not pair.equal]
    if output == "json":
        document: dict[str, Any] = found.totals()
        print_json({**document, "decisions": [pair.document() for pair in pairs]})
        return
    totals = found.totals()
    typer.echo(
        f"{totals['compared']} compared, {totals['equal']} equal; only the scheduler: {totals['onlyReal']}, "
        f"only the shadow: {totals['onlyShadow']}"
    )
    typer.echo(
        f"$ an hour by these decisions: {totals['real']:+.4f}, shadow {totals['shadow']:+.4f}"
    )
    for pair in pairs:
        typer.echo(f"{rfc3339(pair.at)}  {pair.kind}")
        typer.echo(f"  real    {_line(pair.real)}")
        typer.echo(f"  shadow  {_line(pair.shadow)}")


def _line(record: DecisionRecord | None) -> str:
    if record is None:
        return "-"
    cost = "" if record.cost is None else f"{record.cost:+.4f} $/h  "
    text = escaped(record.text)
    return (
        f"{record.id:<20} {cost}{text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + '…'}"
    )
