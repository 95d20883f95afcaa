"""What the nodes cost, beside the proven lower bound, by pool, capacity type and namespace. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from rich.text import Text

from cli.top.cells import bar, safe
from cli.top.reports.records import CostReport
from cli.top.reports.table import table
from cli.top.words import hourly

MOST_NAMES = 12
"""Names of one table; the others are one row."""
OTHERS = "(others)"
BAR_CELLS = 20


def cost_lines(report: CostReport, now: float, width: int) -> list[Text]:
    """The total, the bound, and three tables."""
    costs = report.now
    lines = [_total(report)]
    if report.bound_text:
        lines.append(Text(safe(report.bound_text), style="dim"))
    if report.policies:
        each = ", ".join(f"{safe(name)} {hourly(cost)}" for name, cost in report.policies.items())
        lines.append(Text(f"New machines for the same pods: {each}", style="dim"))
    for title, parts in (
        ("pool", costs.by_pool),
        ("capacity type", costs.by_capacity_type),
        ("namespace", costs.by_namespace),
    ):
        lines += _part(title, parts, costs.total, width)
    return lines


def _total(report: CostReport) -> Text:
    line = Text.assemble("now ", (hourly(report.now.total), "bold"))
    if report.bound is None:
        return line
    line.append("  proven lower bound ").append(hourly(report.bound), style="bold")
    if report.bound > 0:
        above = max(0.0, 100 * (report.now.total - report.bound) / report.bound)
        line.append(f"  {above:.1f} % above it", style="dim")
    return line


def _part(title: str, costs: Mapping[str, float], total: float, width: int) -> list[Text]:
    """A blank line and the table, the dearest first."""
    ordered = sorted(costs.items(), key=lambda one: (-one[1], one[0]))
    shown = dict(ordered[:MOST_NAMES])
    if others := sum(cost for _, cost in ordered[MOST_NAMES:]):
        shown[OTHERS] = others
    rows = [
        [Text(safe(name) or "none"), Text(hourly(cost)), *_share(cost, total)]
        for name, cost in shown.items()
    ]
    lines = table([title, ">cost", ">share", ""], rows, width)
    return [Text(), *lines] if lines else []


def _share(cost: float, total: float) -> list[Text]:
    if total <= 0:
        return [Text("-"), Text()]
    filled = bar(round(1_000 * cost), round(1_000 * total), BAR_CELLS)
    filled.stylize("cyan")
    return [Text(f"{100 * cost / total:.1f}%"), filled]
