"""``dovetail explain decision``: all that was recorded of one decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from cli.decisions.recorded import ClusterOption, StoreOption, read_archive
from cli.options import Output, OutputOption
from cli.stack.environment import StackOption
from cli.text import escaped, print_json
from local.stack import DEFAULT_DIRECTORY
from shared.runtime.archive.explaining import decision_document
from shared.runtime.archive.reading import Archive
from shared.simulation.decisions.names import MAIN, SHADOW

MOST_LINES = 20


def decision(
    id_: Annotated[str, typer.Argument(metavar="ID", help="See `dovetail decisions`.")],
    shadow: Annotated[
        bool, typer.Option("--shadow", help="A decision of the shadow scheduler.")
    ] = False,
    output: OutputOption = "table",
    store: StoreOption = "",
    cluster: ClusterOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show one decision: what was decided, why, for how much, what was rejected, and from which input.

    Read from the archive. The id of a plan is also in the annotation dovetail.sh/plan of each Machine and NodeClaim
    that it created. `GET /explain/decisions/ID` of the scheduler answers the same as JSON.

    Exit code 1: no decision with this id is recorded.

    Examples:

      dovetail explain decision 1f3870be274f6c49

      dovetail explain decision 1f3870be274f6c49 -o json
    """

    async def read(archive: Archive) -> dict[str, Any]:
        return decision_document(await archive.find(id_))

    role = SHADOW if shadow else MAIN
    found = read_archive(read, store=store, cluster=cluster, directory=directory, role=role)
    _print(found, output)


def _print(document: Mapping[str, Any], output: Output) -> None:
    if output == "json":
        print_json(document)
        return
    for line in lines(document):
        typer.echo(escaped(line))


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """What people read."""
    yield f"{document['id']}: {document['text']}"
    if document["reason"]:
        yield f"because    {document['reason']}"
    yield f"decided    {document['at']} in {document['seconds']:.3f} s, epoch {document['epoch']}"
    yield f"by         {document['version']}, Python {document['python']}"
    if document["cost"] is not None:
        bound = document["bound"]
        proven = "" if bound is None else f", proven lower bound {bound:.4f}"
        yield f"price      {document['cost']:+.4f} $ an hour{proven}"
    yield f"input      {document['input']['digest']}, mirror at {document['input']['generation']}"
    settings = (f"{name}={value}" for name, value in document["settings"].items())
    yield f"settings   {', '.join(settings)}"
    yield from _list("machines", document["machines"])
    yield from _list("rejected", [f"{one['what']}: {one['why']}" for one in document["rejected"]])
    yield from _list(
        "stay", [f"{one['count']} by {one['method']}: {one['text']}" for one in document["stay"]]
    )


def _list(title: str, found: list[str]) -> Iterator[str]:
    for number, text in enumerate(found[:MOST_LINES]):
        yield f"{title if number == 0 else '':<11}{text}"
    if len(found) > MOST_LINES:
        yield f"{'':<11}and {len(found) - MOST_LINES} more: -o json"
