"""The picture as lines that fit a terminal. Pure."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.text import Text

from cli.top.header import header_lines
from cli.top.rows import By, groups_of, pending_of, rows_of
from cli.top.sections import node_lines, pending_lines
from cli.top.state import Received

UNLIMITED = sys.maxsize
"""Lines of a picture that is printed: its reader can scroll."""
PENDING_SHARE = 3
"""One line in so many is for pending pods, if the nodes need the others."""


@dataclass(frozen=True)
class Screen:
    """Where the picture is shown: cells in a line, lines, and whether it is ``live`` or printed once."""

    width: int
    height: int = UNLIMITED
    live: bool = False


def lines_of(known: Received, screen: Screen, by: By, now: float) -> list[Text]:
    """At most ``screen.height`` lines of at most ``screen.width`` cells. ``now``: monotonic seconds."""
    lines = header_lines(known, screen.live, now, screen.width)
    lines = lines[: max(2, screen.height // 2)]
    picture = known.picture
    if picture is None:
        return lines[: screen.height]
    time = picture.at + max(0.0, now - known.heard)  # of the console: clocks of machines disagree
    pending, groups = pending_of(picture), groups_of(rows_of(picture), by)
    room = max(0, screen.height - len(lines))
    wanted = 1 + sum(1 + len(group.rows) for group in groups)
    share = max(room // PENDING_SHARE, room - wanted)
    lines += pending_lines(pending, time, screen.width, share)
    lines += node_lines(groups, by, time, screen.width, screen.height - len(lines))
    return lines[: screen.height]
