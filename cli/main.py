"""The ``dovetail`` command. One module per command; this one only names them.

An error that Dovetail understands ends with its message on stderr and exit code 1. Anything else
is a defect and shows its traceback.
"""

from __future__ import annotations

import sys

import typer

from cli.convert import convert
from cli.demo.command import demo
from cli.down import down
from cli.status import status
from cli.up import up
from cli.validate import validate
from shared.errors import DovetailError

commands = typer.Typer(
    name="dovetail",
    help="A node autoscaler for Kubernetes on AWS, with a whole local stack to try it on.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, up, down, status, validate, convert):
    commands.command()(command)


def app() -> None:
    """The console script."""
    try:
        commands()
    except DovetailError as error:
        print(f"dovetail: {error.message}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    app()
