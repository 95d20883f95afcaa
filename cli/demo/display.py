"""Output of the demo, during a scenario and at its end.

On a terminal: one live panel with phases and counts. Otherwise (a pipe, a CI log): one plain line per phase and event.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from cli.demo import cluster_autoscaler
from cli.demo.snapshot import Snapshot
from cli.demo.timeline import Entry, Phase, Timeline
from cli.text import counted

if TYPE_CHECKING:
    from cli.demo.report import Report

_SHOWN_EVENTS = 6


class Display:
    """Shows one scenario, on a terminal within the context of ``live``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None
        self._announced = 0
        self._events: list[Entry] = []

    def live(self) -> AbstractContextManager[object]:
        """The time in which the panel is drawn."""
        return self._live or nullcontext()

    def event(self, entry: Entry) -> None:
        """Show one event."""
        self._events = [*self._events, entry][-_SHOWN_EVENTS:]
        if not self._live:
            self._plain(f"{entry.at:7.1f} s    {entry.event}  {entry.object}")

    def show(self, timeline: Timeline, snapshot: Snapshot) -> None:
        """Show the current state."""
        if self._live:
            self._live.update(_panel(timeline, snapshot, self._events))
            return
        for phase in timeline.phases[self._announced :]:
            self._announced += 1
            self._plain(f"{phase.started:7.1f} s  > {phase.title}")

    def _plain(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _panel(timeline: Timeline, snapshot: Snapshot, events: list[Entry]) -> RenderableType:
    phases = Table.grid(padding=(0, 1))
    for phase in timeline.phases:
        phases.add_row(_symbol(phase), phase.title, _seconds(phase, timeline.elapsed()))
    counts = Text.assemble(
        (f"  {timeline.elapsed():5.1f} s  ", "bold"),
        f"pods {snapshot.running} running, {snapshot.pending} pending   ",
        f"machines {len(snapshot.machines)}   nodes {len(snapshot.nodes)}   ",
        f"instances {len(snapshot.live_instances)}",
    )
    lines = [Text(f"  {e.at:6.1f} s  {e.event}  {e.object}", style="dim") for e in events]
    return Group(phases, Text(), counts, *lines)


def _symbol(phase: Phase) -> Text:
    if phase.seconds is None:
        return Text("…", style="yellow")
    return Text("✗", style="red") if phase.failed else Text("✓", style="green")


def _seconds(phase: Phase, now: float) -> str:
    return f"{phase.seconds if phase.seconds is not None else now - phase.started:6.1f} s"


def settings_table(rows: list[tuple[str, str, str]]) -> Table:
    """The settings of the demo, beside their usual values."""
    table = Table(title="Settings of this demo", title_justify="left", header_style="bold")
    for heading in ("setting", "here", "elsewhere"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*row)
    return table


def print_report(console: Console, report: Report) -> None:
    """Print the tables and the summary at the end."""
    console.print(_nodes_table(report))
    console.print(_phases_table(report))
    for check in report.checks:
        mark = "[green]✓[/green]" if check.ok else "[red]✗[/red]"
        console.print(f"{mark} {check.name}: {check.detail}", highlight=False)
    total, running, _pending = report.pods
    on_existing = running - sum(node.pods for node in report.nodes)
    held = f" ({on_existing} of them on existing nodes)" if on_existing > 0 else ""
    ours = (
        f"Dovetail: {counted(len(report.nodes), 'node')} for {running} of {total} pods{held}, "
        f"${report.hourly_cost:.4f}/h; {report.terminated} of {report.launched} instances ended"
    )
    theirs = cluster_autoscaler.describe(report.comparison)
    console.print(f"\n{ours}\n{theirs}", highlight=False, markup=False, soft_wrap=True)


def _nodes_table(report: Report) -> Table:
    title = f"Nodes of {report.scenario}"
    table = Table(title=title, title_justify="left", header_style="bold")
    for heading in ("node", "type", "zone", "capacity"):
        table.add_column(heading, no_wrap=True)
    table.add_column("$/h", justify="right")
    table.add_column("pods", justify="right")
    for node in report.nodes:
        price = "?" if node.price_per_hour is None else f"{node.price_per_hour:.4f}"
        table.add_row(
            short_name(node.name),
            node.instance_type,
            node.zone,
            node.capacity_type,
            price,
            str(node.pods),
        )
    return table


def short_name(node: str) -> str:
    """The node's name without its domain, which is the same for all nodes."""
    return node.partition(".")[0]


def _phases_table(report: Report) -> Table:
    table = Table(title="Seconds per phase", title_justify="left", header_style="bold")
    table.add_column("")
    table.add_column("phase")
    table.add_column("seconds", justify="right")
    for phase in report.phases:
        table.add_row(_symbol(phase), phase.title, f"{phase.seconds or 0.0:.1f}")
    table.add_section()
    table.add_row("", "the whole story", f"{report.seconds:.1f}")
    return table
