"""``dovetail down``: stop the local stack."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.printing import print_line
from cli.stack.up import DirectoryOption
from local.stack import DEFAULT_DIRECTORY, Stack


def down(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            help="Remove what a stack left on this cluster, when the directory of that stack no longer exists."
        ),
    ] = None,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Stop everything that `dovetail up` started. No process is left; the logs stay.

    On a cluster that `up --kubeconfig` named, this removes what the stack created there: nodes, CRDs with all their
    objects, and RBAC objects.

    Examples:

      dovetail down

      dovetail down --directory /path/of/another/stack
    """
    if kubeconfig is not None:
        gone = _clean(kubeconfig)
        print_line(
            f"removed: {', '.join(gone)}"
            if gone
            else "nothing of a stack was found on this cluster"
        )
        return
    stopped = Stack(directory).stop(print_line)
    print_line(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def _clean(kubeconfig: Path) -> list[str]:
    from local.foreign.removal import remove

    return asyncio.run(remove(kubeconfig))
