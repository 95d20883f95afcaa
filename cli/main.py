"""The ``dovetail`` command. One module per command; this one only names them.

A command's module is imported when it is called: ``validate`` on a file need not wait for the client libraries of
Kubernetes and AWS. An error that Dovetail understands, or that the system explains (a full disk), ends with its message
on stderr and exit code 1. Anything else is a defect and shows its traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from shared.errors import DovetailError

COMMANDS = {
    "demo": "cli.demo.command",
    "up": "cli.up",
    "down": "cli.down",
    "status": "cli.status",
    "explain": "cli.explain",
    "halt": "cli.halt",
    "resume": "cli.halt",
    "simulate": "cli.simulate",
    "validate": "cli.validate",
    "convert": "cli.convert",
    "drill": "cli.drill",
    "interruption": "cli.interruption",
    "secrets": "cli.secrets",
    "cloud": "cli.cloud",
}
"""Name of a command, and of its function (or group of commands) -> its module."""
HELP = "A node autoscaler for Kubernetes on AWS, with a whole local stack to try it on."


class Commands(TyperGroup):
    """Imports each command when it is asked for. Any stands for classes of click that typer gives no public name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        found = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        one = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        one.command(cmd_name)(found)
        return typer.main.get_command(one)


commands = typer.Typer(
    name="dovetail",
    cls=Commands,
    help=HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@commands.callback()
def _group() -> None:
    """Typer makes a group only of what has a callback or commands of its own."""


def app() -> None:
    """The console script."""
    try:
        commands()
    except DovetailError as error:
        print(f"dovetail: {error.message}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        print(f"dovetail: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    app()
