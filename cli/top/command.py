"""``dovetail top``: the nodes and pods of the cluster, live in a terminal, as the console sees them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
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
    snapshot,
    updates,
)
from cli.top.events import snapshot_of
from cli.top.live import Drawing, Latest, watch
from cli.top.rows import By
from cli.top.state import Received, received
from cli.top.terminal import ended_by_user, resized
from cli.top.view import Screen, lines_of
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import SystemClock
from shared.errors import Unavailable


def top(
    by: Annotated[By, typer.Option(help="Property by which the nodes are grouped.")] = "pool",
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

    The console is that of the stack in --directory, or the one that DOVETAIL_CONSOLE_URL names. Where it asks for a
    token, DOVETAIL_CONSOLE_TOKEN has it.

    Exit code 1: the console does not answer, or refuses the token.

    Examples:

      dovetail top

      dovetail top --by zone

      dovetail top --once | grep draining

      dovetail top -o json
    """
    address = address_of(variables_of(directory), os.environ)
    if output == "json":
        print_json(_parsed(asyncio.run(snapshot(address))))
    elif once or not _can_be_drawn():
        _print_once(asyncio.run(snapshot(address)), by)
    else:
        asyncio.run(_watch(address, by))


def _can_be_drawn() -> bool:
    """Not by rich alone: FORCE_COLOR makes it take a pipe for a terminal."""
    return sys.stdout.isatty() and not Console().is_dumb_terminal


def _parsed(data: bytes) -> Any:
    try:
        snapshot_of(data)  # what programs get is a snapshot
        return json.loads(data)
    except ValueError as error:
        raise Unavailable(
            f"the console's answer is not understood ({error}); use the same version of both"
        ) from error


def _print_once(data: bytes, by: By) -> None:
    _parsed(data)
    console = Console()
    width = console.width if sys.stdout.isatty() else PIPE_COLUMNS
    known = received(Received(), snapshot_of(data), now=0.0)
    for line in lines_of(known, Screen(width), by, now=0.0):
        console.print(line, soft_wrap=True)


async def _watch(address: Address, by: By) -> None:
    """Draw until the user ends it, on the terminal's second screen: the first one is restored afterwards."""
    stop, latest = asyncio.Event(), Latest(SystemClock())
    drawing = Drawing(Console(), latest, by)
    backoff = Backoff(Random(), first=FIRST_RETRY_SECONDS, cap=LONGEST_RETRY_SECONDS)
    with ended_by_user(stop), resized(latest.changed.set), drawing.live:
        await watch(latest, updates(address, backoff), stop, drawing.draw)
