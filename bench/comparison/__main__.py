"""``python -m bench.comparison``: are plans as fast and as cheap as when ``figures.json`` was written?

It measures small cases of ``bench.scheduling``, ``bench.backlog`` and ``bench.cost`` and prints each figure beside the
written one. Exit code 1: something is worse. What depends on the inputs alone (prices, machines, pods without a place)
may not be worse at all; memory, and the time of a whole table, by `--factor` at most. Times are first put in relation
to how long this machine takes for a fixed piece of work, so that a slower machine is no slower plan. On a busy machine
single times vary by a factor of two, and so are only shown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench import backlog, cost, scheduling
from bench.report import Row, save, timed
from shared.cloud.catalogue.bundled import bundled_catalogue

FIGURES = Path(__file__).with_name("figures.json")
FACTOR = 1.5
RUNS = 3
SIZES = ("workload", "policy", "pods", "pending", "nodes", "pools")
"""Columns that say which case a row is."""
TIMES = ("cpu ms", "cpu s")
DECIDED = ("$/h", "machines", "without a place", "without a verdict")
"""Columns where less is better, and in which the machine has no part."""
WHOLE = "all cases"
YARDSTICK = "yardstick"
Tables = dict[str, list[Row]]


class Finding(NamedTuple):
    """One figure, now and as written. ``ratio`` above 1: more than it was. ``limit``: the most it may be."""

    case: str
    column: str
    before: float
    now: float
    ratio: float
    limit: float

    @property
    def worse(self) -> bool:
        return self.ratio > self.limit


def measure() -> Tables:
    """All tables, and how fast this machine is."""
    catalogue = bundled_catalogue()
    first = timed(_fixed_work, RUNS)[0].cpu
    tables: Tables = {
        "scheduling": scheduling.measure(scheduling.cases(quick=True), runs=RUNS),
        "backlog": backlog.measure(backlog.SIZES[:1], runs=RUNS),
        "cost": cost.measure(cost.cases(catalogue, quick=True), cost.EFFORTS[:1]),
    }
    last = timed(_fixed_work, RUNS)[0].cpu
    return {YARDSTICK: [{"workload": "fixed", "cpu s": (first + last) / 2}]} | tables


def _fixed_work() -> int:
    """A second or less of what Python does all day."""
    found: dict[int, int] = {}
    for number in range(1_000_000):
        found[number * 7919 % 10_007] = number
    return sum(sorted(found.values()))


def compare(before: Tables, now: Tables, factor: float) -> list[Finding]:
    """Every figure that both have, in the order of the tables; the time of each table as a whole behind it."""
    slower = _seconds(now) / _seconds(before)
    found: list[Finding] = []
    for title in [name for name in now if name != YARDSTICK]:
        written = {_case(row): row for row in before.get(title, [])}
        pairs = [(written[_case(row)], row) for row in now[title] if _case(row) in written]
        rows = [one for old, new in pairs for one in _of_row(title, old, new, slower, factor)]
        found += [*rows, *_whole(title, rows, slower, factor)]
    return found


def _seconds(tables: Tables) -> float:
    return float(str(tables[YARDSTICK][0]["cpu s"]))


def _of_row(title: str, old: Row, new: Row, slower: float, factor: float) -> Iterator[Finding]:
    limits = dict.fromkeys(TIMES, inf) | {"peak MiB": factor} | dict.fromkeys(DECIDED, 1.0)
    for column, limit in limits.items():
        first, second = old.get(column), new.get(column)
        if isinstance(first, int | float) and isinstance(second, int | float):
            scale = slower if column in TIMES else 1.0
            ratio = _ratio(first, second, scale)
            yield Finding(f"{title}: {_case(new)}", column, first, second, ratio, limit)


def _whole(title: str, rows: list[Finding], slower: float, factor: float) -> Iterator[Finding]:
    for column in TIMES:
        times = [(one.before, one.now) for one in rows if one.column == column]
        if times:
            before, now = (sum(one) for one in zip(*times, strict=True))
            ratio = _ratio(before, now, slower)
            yield Finding(f"{title}: {WHOLE}", column, before, now, ratio, factor)


def _ratio(before: float, now: float, scale: float) -> float:
    if before == now / scale:
        return 1.0
    return now / scale / before if before else inf


def _case(row: Row) -> str:
    return ", ".join(f"{row[name]} {name}" if name in SIZES[2:] else str(row[name])
                     for name in SIZES if name in row)  # fmt: skip


def shown(findings: list[Finding]) -> Table:
    """What is worse in red, what is better by as much in green."""
    table = Table(title="Beside the written figures", title_justify="left")
    for column in ("case", "figure", "written", "now", "ratio", "at most"):
        table.add_column(column, justify="left" if column in ("case", "figure") else "right")
    for one in findings:
        style = "bold red" if one.worse else "green" if one.ratio * one.limit < 1 else None
        numbers = (
            f"{one.before:,.3f}",
            f"{one.now:,.3f}",
            f"{one.ratio:.2f}",
            f"{one.limit:.2f}" if one.limit < inf else "",
        )
        table.add_row(one.case, one.column, *numbers, style=style)
    return table


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and tell by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factor", type=float, default=FACTOR, help="default: %(default)s")
    parser.add_argument("--figures", type=Path, default=FIGURES, help="default: %(default)s")
    parser.add_argument("--write", action="store_true", help="write what is measured there")
    chosen = parser.parse_args(arguments)
    now = measure()
    if chosen.write:
        save(chosen.figures, now)
        return 0
    before: Any = json.loads(chosen.figures.read_text())
    findings = compare(before, now, chosen.factor)
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(shown(findings))
    worse = [one for one in findings if one.worse]
    console.print(f"{len(findings)} figures, {len(worse)} worse than allowed")
    return 1 if worse or not findings else 0


if __name__ == "__main__":
    sys.exit(main())
