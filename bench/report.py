"""Runs and reports of benchmarks: medians of several runs, printed as tables and written as JSON.

The planner is one thread that never waits, so its speed is measured in CPU seconds: its time on a core of its own.
Wall-clock time is reported too; it is larger on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.console import Console
from rich.progress import track
from rich.table import Table

from shared.runtime.ram import settle

T = TypeVar("T")
Row = dict[str, object]
"""Column -> value. Every row of a table has the same columns."""


def options(description: str) -> argparse.Namespace:
    """Parses ``--quick`` and ``--json FILE``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, one run each")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rows to this file")
    return parser.parse_args()


class Seconds(NamedTuple):
    """Medians of several runs."""

    cpu: float
    wall: float


def timed(work: Callable[[], T], runs: int) -> tuple[Seconds, T]:
    """(median seconds of one run, the last result). Objects that exist before a run are excluded from garbage
    collection, as at a service's start."""
    found = []
    for _ in range(runs):
        settle()
        start = time.process_time(), time.perf_counter()
        result = work()
        found.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    cpu, wall = zip(*found, strict=True)
    return Seconds(statistics.median(cpu), statistics.median(wall)), result


def peak_memory_mib() -> int:
    """The largest resident size of this process so far. It only grows, so small cases must be measured first."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // (1024**2 if sys.platform == "darwin" else 1024)


def growth_exponent(sizes: tuple[float, float], seconds: tuple[float, float]) -> float | None:
    """The exponent of time by size (1: linear) between two measurements; None when they cannot be compared."""
    if min(*sizes, *seconds) <= 0 or sizes[0] == sizes[1]:
        return None
    return math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0])


def progress(items: Sequence[T], description: str) -> Iterable[T]:
    """The items, with a progress bar on stderr."""
    return track(items, description, console=Console(stderr=True))


def show(title: str, rows: list[Row]) -> Table:
    """Prints a table and returns it."""
    table = Table(title=title, title_justify="left")
    for column in rows[0] if rows else ():
        is_text = isinstance(rows[0][column], str)
        table.add_column(column, justify="left" if is_text else "right")
    for row in rows:
        table.add_row(*map(_text, row.values()))
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return table


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def save(path: Path | None, tables: dict[str, list[Row]]) -> None:
    """Writes the tables, rows by title, as JSON; without a path it does nothing."""
    if path is not None:
        path.write_text(json.dumps(tables, indent=2) + "\n")
