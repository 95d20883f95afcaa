"""Which installation a command speaks to: the local stack of a directory, or what the shell's variables name.

What may go wrong: no stack runs in a directory that was named on the command line. Falling back to the variables would
then ask, or halt, another cluster than the one that was meant; so that is refused.
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
            "leave --directory out to ask what the variables of this shell name"
        )
    return directory


StackOption = Annotated[
    Path,
    typer.Option(
        envvar="DOVETAIL_DIRECTORY",
        help="Directory of a running stack; without one the variables of this shell say where.",
        callback=_refuse_idle,
    ),
]


def running_in(directory: Path) -> Mapping[str, str] | None:
    """The addresses of the stack that runs in ``directory``; None when none does."""
    state = Stack(directory).state()
    return state.environment if state is not None and state.supervisor.alive() else None


def variables_of(directory: Path, inherited: Mapping[str, str] = os.environ) -> Mapping[str, str]:
    """Those of the stack that runs in ``directory``, else the shell's."""
    running = running_in(directory)
    return inherited if running is None else running
