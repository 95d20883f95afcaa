"""``dovetail logs``: print the log of one part of the local stack.

``--follow`` polls the end of the file: a restarted part appends to the same file.
Errors: the part was never started, or the directory has no stack (ConfigurationError).
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from cli.kubectl import names
from cli.stack.up import DirectoryOption
from local.stack import DEFAULT_DIRECTORY, Stack
from shared.errors import ConfigurationError

POLL_SECONDS = 0.2
TAIL_LIMIT = 1_000_000


def logs(
    service: Annotated[
        str,
        typer.Argument(
            help="A service or another part of the stack.", autocompletion=names.services
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int, typer.Option(min=0, max=TAIL_LIMIT, help="Number of last lines to print.")
    ] = 100,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Print the last lines of the log of one part of the local stack.

    Examples:

      dovetail logs scheduler

      dovetail logs launcher --follow --tail 0
    """
    with _opened(Stack(directory), service) as log:
        for line in deque(log, maxlen=tail):
            os.write(1, line)
        if follow:
            _follow(log)


def _opened(stack: Stack, part: str) -> BinaryIO:
    """The log file of one part. Raises ConfigurationError with the names of the existing parts."""
    there = sorted(path.stem for path in stack.log_file(part).parent.glob("*.log"))
    if part in there:
        return stack.log_file(part).open("rb")
    if not there:
        raise ConfigurationError(
            f"no stack was started in {stack.directory}; start one with `dovetail up --detach`"
        )
    raise ConfigurationError(f"there is no part {part!r}; the parts are {', '.join(there)}")


def _follow(log: BinaryIO) -> None:
    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal end of --follow
        while True:
            if line := log.readline():
                os.write(1, line)
            elif Path(log.name).stat().st_size < log.tell():
                log.seek(0)  # a new stack in this directory truncated the file
            else:
                time.sleep(POLL_SECONDS)
