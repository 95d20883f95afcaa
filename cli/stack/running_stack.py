"""The installation that a command addresses: the stack of a directory, or the one that the shell's variables name.

When no stack runs in a directory that the command line names, the command is refused: the variables may name another
cluster, and the command would query or halt the wrong one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from local.stack import Stack
from shared.errors import ConfigurationError


def _refuse_idle(context: typer.Context, directory: Path) -> Path:
    source = context.get_parameter_source("directory")
    if source is not None and source.name == "COMMANDLINE" and running_in(directory) is None:
        raise ConfigurationError(
            f"no stack runs in {directory}; start one with `dovetail up --detach --directory {directory}`, or "
            "omit --directory to use the installation that the variables of this shell name"
        )
    return directory


StackOption = Annotated[
    Path,
    typer.Option(
        envvar="DOVETAIL_DIRECTORY",
        help="Directory of a running stack. Without a stack the variables of this shell are used.",
        callback=_refuse_idle,
    ),
]


def running_in(directory: Path) -> Mapping[str, str] | None:
    """The addresses of the stack that runs in ``directory``; None when none does."""
    state = Stack(directory).state()
    return state.environment if state is not None and state.supervisor.alive() else None


def variables_of(directory: Path, inherited: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """The variables of the stack that runs in ``directory``, otherwise the shell's."""
    running = running_in(directory)
    return inherited if running is None else running
