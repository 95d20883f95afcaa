"""``dovetail logs``: what one part of the local stack has logged.

The file is followed by looking at its end: a part that is started again goes on in the same file. What may go wrong: a
part that was never started, or a directory without a stack (ConfigurationError).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from cli.stack.up import DirectoryOption
from local.stack import DEFAULT_DIRECTORY, Stack
from shared.errors import ConfigurationError

LOOK_SECONDS = 0.2
MOST_LINES = 1_000_000


def logs(
    service: Annotated[str, typer.Argument(help="A service or another part of the stack.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
    tail: Annotated[
        int, typer.Option(min=0, max=MOST_LINES, help="How many of the last lines.")
    ] = 100,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Print what a part of the local stack has logged, the last lines first.

    Examples:

      dovetail logs scheduler

      dovetail logs launcher --follow --tail 0
    """
    with _opened(Stack(directory), service) as log:
        for line in deque(log, maxlen=tail):
            _write(line)
        if follow:
            _follow(log)


def _opened(stack: Stack, part: str) -> BinaryIO:
    """The log of one part. Raises ConfigurationError that names the parts there are."""
    there = sorted(path.stem for path in stack.log_file(part).parent.glob("*.log"))
    if part in there:
        return stack.log_file(part).open("rb")
    if not there:
        raise ConfigurationError(
            f"no stack was started in {stack.directory}; start one with `dovetail up --detach`"
        )
    raise ConfigurationError(f"no part {part!r} here; there are {', '.join(there)}")


def _follow(log: BinaryIO) -> None:
    try:
        for line in _lines_to_come(log):
            _write(line)
    except KeyboardInterrupt:
        return  # the way to end it


def _lines_to_come(log: BinaryIO) -> Iterator[bytes]:
    while True:
        line = log.readline()
        if line:
            yield line
        elif Path(log.name).stat().st_size < log.tell():
            log.seek(0)  # a new stack in this directory began the file anew
        else:
            time.sleep(LOOK_SECONDS)


def _write(line: bytes) -> None:
    os.write(1, line)
