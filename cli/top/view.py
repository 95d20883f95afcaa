"""The picture as lines that fit a terminal. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.text import Text

from cli.top.cells import fitted
from cli.top.cluster.rows import By, groups_of, pending_of, rows_of
from cli.top.cluster.sections import more, node_lines, pending_lines
from cli.top.header import header_lines
from cli.top.reports.views import Shown, report_lines, views_line
from cli.top.state import Picture, Received

UNLIMITED = sys.maxsize
"""Lines of a picture that is printed: its reader can scroll."""
LEAST_FOR_VIEWS = 8
"""A terminal with fewer lines has no room for the names of the views."""
PENDING_SHARE = 3
"""One line in so many is for pending pods, if the nodes need the others."""


@dataclass(frozen=True)
class Screen:
    """Where the picture is shown: cells in a line, lines, and whether it is ``live`` or printed once."""

    width: int
    height: int = UNLIMITED
    live: bool = False


def lines_of(
    known: Received, screen: Screen, by: By, now: float, shown: Shown | None = None
) -> list[Text]:
    """At most ``screen.height`` lines of at most ``screen.width`` cells. ``now``: monotonic seconds."""
    shown = shown or Shown()
    lines = header_lines(known, screen.live, now, screen.width)
    lines = lines[: max(2, screen.height // 2)]
    picture = known.picture
    if picture is None:
        return lines[: screen.height]
    if screen.live and screen.height >= LEAST_FOR_VIEWS:
        lines.append(views_line(shown.view, screen.width))
    time = picture.at + max(0.0, now - known.heard)  # of the console: clocks of machines disagree
    if shown.view == "cluster":
        lines += _cluster_lines(picture, screen, by, time, len(lines))
    else:
        room = max(0, screen.height - len(lines))
        lines += shortened(report_lines(shown, time, screen.width), room, screen.width)
    return lines[: screen.height]


def shortened(lines: list[Text], room: int, width: int) -> list[Text]:
    """At most ``room`` lines; the last one counts those that have no room."""
    if len(lines) <= room or room <= 0:
        return lines[: max(0, room)]
    return [*lines[: room - 1], fitted(more(len(lines) - room + 1, "line"), width)]


def _cluster_lines(picture: Picture, screen: Screen, by: By, time: float, used: int) -> list[Text]:
    """``used``: lines above these. ``time``: seconds since the epoch."""
    pending, groups = pending_of(picture), groups_of(rows_of(picture), by)
    room = max(0, screen.height - used)
    wanted = 1 + sum(1 + len(group.rows) for group in groups)
    share = max(room // PENDING_SHARE, room - wanted)
    lines = pending_lines(pending, time, screen.width, share)
    return lines + node_lines(groups, by, time, screen.width, room - len(lines))
