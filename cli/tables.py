"""Tables as kubectl prints them: no frames, so that a row fits into 80 columns and can be cut and grepped.

On a terminal that is too narrow cells are folded. Into a pipe or a file every row is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

UNFOLDED = 1_000
"""Columns of something that is no terminal."""


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str = ""
) -> None:
    """On standard output."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=UNFOLDED)
    if title:
        console.print(f"\n{title}", style="bold", markup=False, highlight=False)
    console.print(table_of(headings, rows))


def table_of(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """Text in cells is shown as it is, brackets included."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for heading in headings:
        table.add_column(heading.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table
