"""Options that several commands have, and groups of commands."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Output = Literal["table", "json"]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="table for people, json for programs.")
]
SeedOption = Annotated[
    int, typer.Option(help="Seed of the random choice; the same seed gives the same choice.")
]


def group(summary: str) -> typer.Typer:
    """A command that consists of commands."""
    made = typer.Typer(
        help=summary,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(
        lambda: None
    )  # without a callback typer makes a group of one command that command
    return made
