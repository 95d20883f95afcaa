"""``dovetail down``: stop the local stack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.stack.up import DirectoryOption
from local.stack import DEFAULT_DIRECTORY, Stack


def down(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Instead: take away what a stack whose directory is gone left on this cluster."
        ),
    ] = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Stop everything that `dovetail up` started. Leaves no process; the logs stay.

    Of a cluster that `up --kubeconfig` named it takes away what the stack made there: nodes, kinds with all their
    objects, rights.

    Examples:

      dovetail down

      dovetail down --directory /path/of/another/stack
    """
    console = Console()

    def say(message: str) -> None:
        console.print(message, highlight=False, soft_wrap=True)

    if kubeconfig is not None:
        gone = _clean(kubeconfig)
        say(f"taken away: {', '.join(gone)}" if gone else "no stack had left anything there")
        return
    stopped = Stack(directory).stop(say)
    say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def _clean(kubeconfig: Path) -> list[str]:
    from local.foreign.removal import remove

    return asyncio.run(remove(kubeconfig))
