"""What the demo shows while it runs: lines in a pipe, a panel on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from cli.cloud.emulator import InstanceView
from cli.demo.display import _SHOWN_EVENTS, Display, settings_table
from cli.demo.settings import DemoSettings
from cli.demo.snapshot import Snapshot
from cli.demo.timeline import ENTRY_LIMIT, Entry, Timeline
from tests.support.clock.fake import FakeClock

BUSY = Snapshot(instances=(InstanceView("i-1", "m5.large", "us-west-2a", "running"),))


def timeline() -> tuple[Timeline, FakeClock]:
    """One phase that took 2 s, one that failed after 1 s, and one that has run for 4 s."""
    clock = FakeClock()
    made = Timeline(clock)
    first = made.begin("apply")
    clock.advance(2)
    made.end(first)
    second = made.begin("scale")
    clock.advance(1)
    made.end(second, failed=True)
    made.begin("wait")
    clock.advance(4)
    return made, clock


def test_a_timeline_counts_from_its_start() -> None:
    made, _ = timeline()
    assert made.elapsed() == 7.0
    assert made.add("node joined", "node/a") == Entry(7.0, "node joined", "node/a")
    assert [(one.started, one.seconds, one.failed) for one in made.phases] == [
        (0.0, 2.0, False),
        (2.0, 1.0, True),
        (3.0, None, False),
    ]


def test_a_full_timeline_takes_no_more_entries() -> None:
    made = Timeline(FakeClock(), entries=[Entry(0.0, "e", "o")] * ENTRY_LIMIT)
    assert made.add("one too many", "o") is None
    assert len(made.entries) == ENTRY_LIMIT


def test_in_a_pipe_each_phase_and_each_event_is_one_line() -> None:
    out = io.StringIO()
    display = Display(Console(file=out, width=40))
    made, _ = timeline()
    with display.live():
        display.show(made, Snapshot())
        display.show(made, Snapshot())
        display.event(Entry(7.0, "node [ready] with a long name that is not folded", "node/a"))
    assert out.getvalue().splitlines() == [
        "    0.0 s  > apply",
        "    2.0 s  > scale",
        "    3.0 s  > wait",
        "    7.0 s    node [ready] with a long name that is not folded  node/a",
    ]


def test_on_a_terminal_one_panel_has_phases_counts_and_the_last_events() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100, force_terminal=True, color_system=None)
    display = Display(console)
    made, _ = timeline()
    for number in range(_SHOWN_EVENTS + 2):
        display.event(Entry(float(number), "node joined", f"node/{number}"))
    with display.live():
        display.show(made, BUSY)
    shown = [line.rstrip() for line in out.getvalue().splitlines()]
    assert "✓ apply    2.0 s" in shown[0]
    assert "✗ scale    1.0 s" in shown[1]
    assert "… wait     4.0 s" in shown[2]
    assert "7.0 s  pods 0 running, 0 pending   machines 0   nodes 0   instances 1" in shown[4]
    last = shown[5 : 5 + _SHOWN_EVENTS]
    assert [line.rpartition("/")[2] for line in last] == ["2", "3", "4", "5", "6", "7"]


def test_the_settings_stand_beside_their_usual_values() -> None:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as captured:
        console.print(settings_table(DemoSettings().rows()))
    (row,) = [line for line in captured.get().splitlines() if "ttlSecondsAfterEmpty" in line]
    assert "10" in row
    assert "30 in the seeds" in row
