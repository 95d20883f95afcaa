"""Lines and tables on standard output. Tables are in the style of kubectl: without frames a row fits into 80 columns,
and ``cut`` and ``grep`` can read it.

On a narrow terminal cells are folded. In a pipe or a file every row is one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cli.options import Output
from cli.text import print_json

PIPE_COLUMNS = 1_000
"""Width of output that is not a terminal, large enough that no cell is folded."""


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[str | Text]], *, title: str = ""
) -> None:
    """Print a table on standard output, below its title."""
    for part in titled_table(title, headings, rows):
        print_part(part)


def titled_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str | Text]]
) -> list[RenderableType]:
    """A table below its title, which may be empty."""
    return [*([Text(f"\n{title}", "bold")] if title else []), table_of(headings, rows)]


def print_part(part: RenderableType) -> None:
    """Print one part on standard output."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPE_COLUMNS)
    console.print(part, markup=False, highlight=False)


def print_line(text: str) -> None:
    """Print one line on standard output, without markup."""
    Console().print(text, highlight=False, soft_wrap=True, markup=False)


def table_of(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table whose cells are plain text: brackets in a cell are not markup."""
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
    for heading in headings:
        table.add_column(heading.upper(), overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return table


def print_answer(answer: object, lines: Iterable[Text], output: Output) -> None:
    """Print an answer: for programs as JSON, for people as lines, unwrapped so that they can be copied."""
    if output == "json":
        print_json(answer)
        return
    console = Console()
    for text in lines:
        console.print(text, soft_wrap=True)
