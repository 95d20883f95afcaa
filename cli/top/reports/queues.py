"""Streams, their readers, and dead letters with the command that replays them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from cli.top.cells import age, safe
from cli.top.reports.records import ConsumerGroup, DeadLetter, QueuesReport
from cli.top.reports.records import Queue as Stream
from cli.top.reports.table import table
from cli.top.words import clock, heading

HEADINGS = (
    "stream", ">length", ">delayed", ">dead", "group", ">waiting", ">pending", ">oldest", ">consumers", "",
)  # fmt: skip


def queue_lines(report: QueuesReport, now: float, width: int) -> list[Text]:
    """One row for each reader of each stream, then the dead letters, newest first."""
    rows = [row for queue in report.queues for row in _rows(queue)]
    lines = table(HEADINGS, rows, width)
    letters = sorted(report.dead_letters, key=lambda one: -one.at)
    if letters:
        lines += [Text(), heading("dead letters")]
    return [*lines, *(line for letter in letters for line in _letter(letter))]


def _rows(queue: Stream) -> Iterable[list[Text]]:
    groups = queue.groups or (None,)
    for place, group in enumerate(groups):
        yield [*(_stream(queue) if place == 0 else [Text()] * 4), *_group(group), Text()]


def _stream(queue: Stream) -> list[Text]:
    dead = Text(str(queue.dead), style="bold red" if queue.dead else "")
    return [Text(safe(queue.stream)), Text(str(queue.length)), Text(str(queue.delayed)), dead]


def _group(group: ConsumerGroup | None) -> list[Text]:
    if group is None:
        return [Text("nobody reads it", style="dim"), *[Text("-")] * 4]
    oldest = "-" if group.oldest_seconds is None else age(group.oldest_seconds)
    waiting = f"{group.waiting}{'+' if group.waiting_more else ''}"
    numbers = (waiting, str(group.pending), oldest, str(group.consumers))
    return [Text(safe(group.name)), *map(Text, numbers)]


def _letter(letter: DeadLetter) -> Iterable[Text]:
    yield Text.assemble(
        (clock(letter.at), "dim"), "  ", (safe(letter.message) or "not a message", "bold"),
        f"  {safe(letter.stream)}  ", (safe(letter.error), "red"),
    )  # fmt: skip
    yield Text(f"    {safe(letter.body)}", style="dim")
    yield Text(f"    {safe(letter.replay)}")
