"""``dovetail audit``: read a live cluster, and say which promises hold and which are broken now."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import typer

from cli.kubectl.addresses import NAMESPACE, SYSTEM_NAMESPACE
from cli.operations.audit.finding import Graces, duration, graces_of
from cli.operations.audit.reading.read import PARTS, read
from cli.operations.audit.report import change_document, document, print_audit, print_change
from cli.operations.audit.rounds import Audit, Read, audited, watched
from cli.operations.doctor.finding import Installation
from cli.options import Output, OutputOption
from cli.stack.cluster import connected_to
from cli.stack.environment import StackOption, variables_of
from cli.text import print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError

BROKEN, UNREAD = 2, 1
"""Exit codes."""


def _parts(incomplete: str) -> list[str]:
    return [name for name in PARTS if name.startswith(incomplete)]


SkipOption = Annotated[
    list[str] | None,
    typer.Option(
        help=f"Do not read this, nor judge by it; repeatable: {', '.join(PARTS)}.",
        autocompletion=_parts,
    ),
]
GraceOption = Annotated[
    str,
    typer.Option(
        help="No grace is longer than this, such as 30s: also what is healthy for a moment may count."
    ),
]
WatchOption = Annotated[
    bool,
    typer.Option("--watch", help="Read again every 30s; print what breaks and what holds again."),
]
ForOption = Annotated[str, typer.Option("--for", help="How long --watch goes on.")]


def audit(
    skip: SkipOption = None,
    grace: GraceOption = "",
    watch: WatchOption = False,
    lasting: ForOption = "1h",
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Judge the promises of Dovetail in a live cluster: instances, machines, nodes, pools, streams and the mirror.

    Each finding names the object, since when, and the next step. A healthy cluster may take a while for everything, so
    each promise has a grace; what has no age of its own must be seen in two readings, 30 seconds apart. Only reads.

    Exit code 0: all hold. 2: one is broken (with --watch: was, at any time). 1: one could not be judged; it says what
    could not be read.

    Examples:

      dovetail audit

      kubectl dovetail audit --skip mirror

      dovetail audit --watch --for 10m -o json
    """
    variables = variables_of(directory)
    graces, skipped = graces_of(variables, grace), _known(skip or ())
    seconds = duration("--for", lasting)
    work = _watch(variables, skipped, graces, seconds, output) if watch else None
    code = asyncio.run(work or _once(variables, skipped, graces, output))
    if code:
        raise typer.Exit(code)


def _known(skipped: Collection[str]) -> list[str]:
    """Raises ConfigurationError for an unknown part."""
    if unknown := [name for name in skipped if name not in PARTS]:
        raise ConfigurationError(
            f"--skip: there is no {', '.join(unknown)}; there are {', '.join(PARTS)}"
        )
    return list(skipped)


@asynccontextmanager
async def _reader(variables: Mapping[str, str], skipped: Collection[str]) -> AsyncIterator[Read]:
    # The AWS client reads credentials from the environment of this process alone.
    os.environ.update({key: value for key, value in variables.items() if key.startswith("AWS_")})
    namespace = variables.get(SYSTEM_NAMESPACE) or NAMESPACE
    async with connected_to(variables, command="audit") as kube:
        yield partial(read, Installation(variables, kube, namespace, SystemClock()), skipped)


async def _once(
    variables: Mapping[str, str], skipped: Collection[str], graces: Graces, output: Output
) -> int:
    async with _reader(variables, skipped) as reader:
        found = await audited(reader, graces, asyncio.sleep)
    if output == "json":
        print_json(document(found))
    else:
        print_audit(found)
    return exit_code(found)


async def _watch(
    variables: Mapping[str, str],
    skipped: Collection[str],
    graces: Graces,
    seconds: float,
    output: Output,
) -> int:
    """Prints the first judgement whole, then changes: as lines, or as one JSON document per line."""
    codes, first = set(), True
    async with _reader(variables, skipped) as reader:
        async for found, changed in watched(reader, graces, asyncio.sleep, seconds=seconds):
            codes.add(exit_code(found))
            if output == "json":
                for one in changed:
                    typer.echo(json.dumps(change_document(one)))
            elif first:
                print_audit(found)
            else:
                for one in changed:
                    print_change(one)
            first = False
    return max(codes, default=0)


def exit_code(audit: Audit) -> int:
    """A promise that is broken weighs more than one that could not be judged."""
    results = {one.result for one in audit.verdicts}
    if "broken" in results:
        return BROKEN
    return UNREAD if "not judged" in results else 0
