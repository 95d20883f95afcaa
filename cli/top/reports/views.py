"""The views of the picture: what each shows, and which key leads to it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from rich.text import Text

from cli.top.cells import fitted, safe
from cli.top.reports.cost import cost_lines
from cli.top.reports.decisions import decision_lines
from cli.top.reports.health import health_lines
from cli.top.reports.interruptions import interruption_lines
from cli.top.reports.queues import queue_lines
from cli.top.reports.records import (
    CostReport,
    DecisionsReport,
    HealthReport,
    InterruptionsReport,
    QueuesReport,
    Report,
)

View = Literal["cluster", "decisions", "cost", "interruptions", "queues", "health"]
"""``cluster`` comes from the stream, each other one is a report of the same name."""
VIEWS: tuple[View, ...] = get_args(View)
Lines = Callable[[Any, float, int], list[Text]]
_REPORTS: dict[str, tuple[type[Report], Lines]] = {
    "decisions": (DecisionsReport, decision_lines),
    "cost": (CostReport, cost_lines),
    "interruptions": (InterruptionsReport, interruption_lines),
    "queues": (QueuesReport, queue_lines),
    "health": (HealthReport, health_lines),
}


class Shown(NamedTuple):
    """The view that is on the screen. ``report``: its latest answer. ``problem``: why there is none or no newer one."""

    view: View = "cluster"
    report: Report | None = None
    problem: str = ""


def view_after(view: View, keys: bytes) -> View:
    """The view after some keys: 1 to 6 choose one, Tab is the next."""
    for key in keys:
        if key == ord("\t"):
            view = VIEWS[(VIEWS.index(view) + 1) % len(VIEWS)]
        elif 0 <= key - ord("1") < len(VIEWS):
            view = VIEWS[key - ord("1")]
    return view


def report_of(view: View, data: bytes) -> Report:
    """The console's answer as a record. Raises ValueError when it is none."""
    return msgspec.json.decode(data, type=_REPORTS[view][0])


def report_lines(shown: Shown, now: float, width: int) -> list[Text]:
    """Lines of at most ``width`` cells. ``now``: seconds since the epoch."""
    problems = [shown.problem, shown.report.problem if shown.report else ""]
    lines = [Text(f"{safe(problem)}.", style="yellow") for problem in problems if problem]
    if shown.report is not None:
        lines += _REPORTS[shown.view][1](shown.report, now, width)
    elif not lines:
        lines.append(Text("waits for the console", style="yellow"))
    return [fitted(line, width) for line in lines]


def views_line(view: View, width: int) -> Text:
    """The views with their keys, the shown one marked."""
    names = (
        Text(f" {key} {name} ", style="reverse bold" if name == view else "dim")
        for key, name in enumerate(VIEWS, 1)
    )
    return fitted(Text("").join(names), width)
