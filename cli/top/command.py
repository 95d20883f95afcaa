"""``dovetail top``: the views of the console, live in a terminal."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console

from cli.options import OutputOption
from cli.printing import PIPE_COLUMNS
from cli.stack.environment import StackOption, variables_of
from cli.text import print_json
from cli.top.client import (
    FIRST_RETRY_SECONDS,
    LONGEST_RETRY_SECONDS,
    Address,
    address_of,
    report,
    snapshot,
    updates,
)
from cli.top.cluster.rows import By
from cli.top.events import snapshot_of
from cli.top.live import Drawing, Latest, watch
from cli.top.reports.views import Shown, View, report_of
from cli.top.state import Received, received
from cli.top.terminal import ended_by_user, resized
from cli.top.view import Screen, lines_of
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import SystemClock
from shared.errors import Unavailable


def top(
    by: Annotated[By, typer.Option(help="Property by which the nodes are grouped.")] = "pool",
    view: Annotated[View, typer.Option(help="What is shown first.")] = "cluster",
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Print one picture and end, as is always done without a terminal."
        ),
    ] = False,
    output: OutputOption = "table",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show nodes and pods live: pending pods first, then the nodes with what their pods request.

    Nodes that come, go or have a mark are on top of their group. Shares of CPU and memory are requests of allocatable.
    What the terminal has no room for is counted. q or Ctrl-C ends it. Nothing is changed.

    The keys 1 to 6, or Tab, lead to the other views of the console: decisions with reasons and prices, cost beside the
    proven lower bound, interruptions with deadlines, queues with dead letters, and the health of the services.

    The console is that of the stack in --directory, or the one that DOVETAIL_CONSOLE_URL names. Where it asks for a
    token, DOVETAIL_CONSOLE_TOKEN has it.

    Exit code 1: the console does not answer, or refuses the token.

    Examples:

      dovetail top

      dovetail top --by zone

      dovetail top --once | grep draining

      dovetail top --view decisions

      dovetail top -o json
    """
    address = address_of(variables_of(directory), os.environ)
    if output == "json":
        print_json(_parsed(view, asyncio.run(report(address, view))))
    elif once or not _can_be_drawn():
        _print_once(*asyncio.run(_read_once(address, view)), by)
    else:
        asyncio.run(_watch(address, view, by))


def _can_be_drawn() -> bool:
    """Not by rich alone: FORCE_COLOR makes it take a pipe for a terminal."""
    return sys.stdout.isatty() and not Console().is_dumb_terminal


def _parsed(view: View, data: bytes) -> Any:
    """What programs get can be shown, too."""
    with _understood():
        if view == "cluster":
            snapshot_of(data)
        else:
            report_of(view, data)
        return json.loads(data)


@contextmanager
def _understood() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise Unavailable(
            f"the console's answer is not understood ({error}); use the same version of both"
        ) from error


async def _read_once(address: Address, view: View) -> tuple[Received, Shown]:
    whole = await snapshot(address)
    with _understood():
        known = received(Received(), snapshot_of(whole), now=0.0)
        if view == "cluster":
            return known, Shown()
        return known, Shown(view, report_of(view, await report(address, view)))


def _print_once(known: Received, shown: Shown, by: By) -> None:
    console = Console()
    width = console.width if sys.stdout.isatty() else PIPE_COLUMNS
    for line in lines_of(known, Screen(width), by, now=0.0, shown=shown):
        console.print(line, soft_wrap=True)


async def _watch(address: Address, view: View, by: By) -> None:
    """Draw until the user ends it, on the terminal's second screen: the first one is restored afterwards."""
    stop, latest = asyncio.Event(), Latest(SystemClock(), shown=Shown(view))
    drawing = Drawing(Console(), latest, by)
    backoff = Backoff(Random(), first=FIRST_RETRY_SECONDS, cap=LONGEST_RETRY_SECONDS)
    fetch = partial(report, address)
    with ended_by_user(stop, latest.press), resized(latest.changed.set), drawing.live:
        await watch(latest, updates(address, backoff), fetch, stop, drawing.draw)
