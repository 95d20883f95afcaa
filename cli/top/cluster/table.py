"""The node table: the widest layout that fits, and its lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.text import Text

from cli.top.cells import fitted
from cli.top.cluster.columns import COLUMNS, LAYOUTS, Column, Moment, columns_by
from cli.top.cluster.rows import By, Row

GAP = 2
"""Cells between two columns."""
FLEXIBLE = ("name", "state", "why")
"""Columns that get the space that is left, in this order."""


class Table(NamedTuple):
    """A heading and one line for each row, none wider than the table."""

    heading: Text
    lines: list[Text]


class _Layout(NamedTuple):
    """Cells by column, and the width of each column."""

    cells: dict[str, list[Text]]
    widths: dict[str, int]


def node_table(rows: Sequence[Row], by: By, now: float, width: int) -> Table:
    """The rows, in their order, with as many columns as ``width`` cells have room for."""
    layout = _layout(rows, by, now, width)
    columns = [COLUMNS[name] for name in layout.widths]
    headings = [Text(column.heading.upper(), style="bold") for column in columns]
    lines = [
        _line(cells, columns, layout.widths, width)
        for cells in zip(*layout.cells.values(), strict=True)
    ]
    return Table(_line(headings, columns, layout.widths, width), lines)


def _layout(rows: Sequence[Row], by: By, now: float, width: int) -> _Layout:
    """The first layout that fits, otherwise the last one, whose lines are cut off."""
    made: dict[tuple[str, int], list[Text]] = {}
    for bar, least_state, names in LAYOUTS:
        moment = Moment(now, bar)
        for name in (chosen := columns_by(names, by)):
            if (name, bar) not in made:
                made[name, bar] = [COLUMNS[name].cell(row, moment) for row in rows]
        cells = {name: made[name, bar] for name in chosen}
        natural = {name: _natural(COLUMNS[name], cells[name]) for name in chosen}
        least = {name: min(natural[name], COLUMNS[name].least) for name in chosen}
        least["state"] = min(natural["state"], least_state)
        if (left := width - _total(least)) >= 0:
            break
    return _Layout(cells, _stretched(least, natural, left))


def _natural(column: Column, cells: Sequence[Text]) -> int:
    widest = max((cell.cell_len for cell in cells), default=0)
    return min(column.most, max(len(column.heading), widest))


def _total(widths: dict[str, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _stretched(least: dict[str, int], natural: dict[str, int], left: int) -> dict[str, int]:
    """The widths after ``left`` cells were given to the flexible columns."""
    widths = dict(least)
    for name in FLEXIBLE:
        if name in widths:
            more = max(0, min(natural[name] - widths[name], left))
            widths[name] += more
            left -= more
    return widths


def _line(
    cells: Sequence[Text], columns: Sequence[Column], widths: dict[str, int], width: int
) -> Text:
    padded = [
        _padded(cell, column, cells_wide)
        for cell, column, cells_wide in zip(cells, columns, widths.values(), strict=True)
    ]
    line = Text(" " * GAP).join(padded)
    line.rstrip()
    return fitted(line, width)


def _padded(cell: Text, column: Column, width: int) -> Text:
    cut = fitted(cell, width)
    spaces = " " * (width - cut.cell_len)
    return Text.assemble(spaces, cut) if column.right else Text.assemble(cut, spaces)
