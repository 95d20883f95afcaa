"""``dovetail shadow diff``: what the shadow scheduler decided beside the real one."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from cli.decisions.pairing import NEAR_SECONDS, Compared, compare
from cli.decisions.recorded import ClusterOption, StoreOption, period, read_archive
from cli.options import Output, OutputOption, group
from cli.stack.environment import StackOption
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock, rfc3339
from shared.errors import NotFound
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
    What the scheduler decided before the shadow's first record is left out.

    Exit code 1: one of the two has recorded nothing in this time.

    Examples:

      dovetail shadow diff --from 24h

      dovetail shadow diff --from 2h --all -o json
    """
    first, last = period(begin, end, SystemClock())

    def read(store: str, role: str) -> _Kept:
        kept = partial(_kept, begin=first, end=last)
        return read_archive(kept, store=store, cluster=cluster, directory=directory, role=role)

    real, other = read(store, MAIN), read(shadow_store or store, SHADOW)
    for who, kept in (("the scheduler", real), ("the shadow scheduler", other)):
        if not kept.records:
            raise NotFound(f"{who} has recorded nothing in this time")
    ours = [one for one in real.records if one.at >= other.since - NEAR_SECONDS]
    _print(compare(ours, other.records), max(first, other.since), everything, output)


class _Kept(NamedTuple):
    """``since``: when the first record of this scheduler was made, in seconds since the epoch."""

    records: list[DecisionRecord]
    since: float


async def _kept(archive: Archive, begin: float, end: float) -> _Kept:
    found = [one async for one in archive.records(begin, end)]
    return _Kept(found, min((chunk.first for chunk in await archive.log.chunks()), default=0.0))


def _print(found: Compared, since: float, everything: bool, output: Output) -> None:
    pairs = [pair for pair in found.pairs if everything or not pair.equal]
    if output == "json":
        document: dict[str, Any] = found.totals()
        decisions = [pair.document() for pair in pairs]
        print_json({"from": rfc3339(since), **document, "decisions": decisions})
        return
    totals = found.totals()
    typer.echo(
        f"from {rfc3339(since)}: {totals['compared']} compared, {totals['equal']} equal; "
        f"only the scheduler: {totals['onlyReal']}, only the shadow: {totals['onlyShadow']}"
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
