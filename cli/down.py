"""``dovetail down``: stop the local stack."""

from __future__ import annotations

from rich.console import Console

from cli.up import DirectoryOption
from local.stack import DEFAULT_DIRECTORY, Stack


def down(directory: DirectoryOption = DEFAULT_DIRECTORY) -> None:
    """Stop everything that `dovetail up` started. Leaves no process; the logs stay.

    Examples:

      dovetail down

      dovetail down --directory /path/of/another/stack
    """
    stopped = Stack(directory).stop()
    message = f"stopped {', '.join(stopped)}" if stopped else "nothing was running"
    Console().print(message, highlight=False, soft_wrap=True)
