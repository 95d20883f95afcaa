"""Options of all ledgers."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

BeginOption = Annotated[
    str, typer.Option("--from", help="From this time on: 2026-11-25T10:42:00Z, or 2h for two hours ago.")
]  # fmt: skip
EndOption = Annotated[str, typer.Option("--to", help="Up to this time. Default: now.")]
FilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filename", "-f", help="Files or directories with the objects, or -; default: the cluster.",
    ),
]  # fmt: skip
ReportOption = Annotated[
    Literal["table", "json", "csv"],
    typer.Option("--output", "-o", help="table for people, json and csv for programs."),
]
