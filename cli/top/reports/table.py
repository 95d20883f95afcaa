"""A plain table: a heading and rows, each column as wide as its widest cell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from cli.top.cells import fitted

GAP = "  "
WIDEST = 60
"""Cells of any column but the last, which gets the rest of the line."""


def table(headings: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """No lines without rows. A heading that begins with ``>`` stands, with its cells, on the right of its column."""
    if not rows:
        return []
    right = [heading.startswith(">") for heading in headings]
    top = [Text(heading.removeprefix(">").upper(), style="bold") for heading in headings]
    lines = [top, *rows]
    columns = list(zip(*lines, strict=True))
    widths = [min(WIDEST, max(cell.cell_len for cell in column)) for column in columns]
    widths[-1] = width
    return [_line(cells, widths, right, width) for cells in lines]


def _line(cells: Sequence[Text], widths: Sequence[int], right: Sequence[bool], width: int) -> Text:
    padded = [
        _padded(cell, wide, on_right and place < len(cells) - 1)
        for place, (cell, wide, on_right) in enumerate(zip(cells, widths, right, strict=True))
    ]
    line = Text(GAP).join(padded)
    line.rstrip()
    return fitted(line, width)


def _padded(cell: Text, width: int, on_right: bool) -> Text:
    cut = fitted(cell, width)
    spaces = " " * (width - cut.cell_len)
    return Text.assemble(spaces, cut) if on_right else Text.assemble(cut, spaces)
