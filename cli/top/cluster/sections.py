"""The two lists of the picture: pending pods, and nodes by group. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from cli.text import counted
from cli.top.cells import age, cores, fitted, mebibytes, percent, safe
from cli.top.cluster.rows import By, Group, Row
from cli.top.cluster.shares import cut, shares_in_turn
from cli.top.cluster.table import Table, node_table
from cli.top.header import cost
from cli.top.records import Pod
from cli.top.words import cause_of

SHORTEST_NAME = 20
_WAITS = {
    "capacity": "no node has room",
    "scheduling": "not scheduled yet",
    "nominated": "waits for its node",
}


def more(number: int, noun: str) -> Text:
    """The line in place of what has no room."""
    return Text(f"  and {number} more {noun if number == 1 else noun + 's'}", style="dim")


def pending_lines(pods: Sequence[Pod], now: float, width: int, room: int) -> list[Text]:
    """A heading and the pods, at most ``room`` lines. ``now``: seconds since the epoch."""
    if not pods or room <= 0:
        return []
    heading = Text(f"{counted(len(pods), 'pod')} pending", style="bold yellow")
    shown, left_out = cut(len(pods), room - 1)
    names = [Text(safe(pod.name)) for pod in pods[:shown]]
    wide = min(max((name.cell_len for name in names), default=0), max(width // 2, SHORTEST_NAME))
    lines = [
        heading,
        *(_pending_line(*both, wide, now) for both in zip(names, pods, strict=False)),
    ]
    if left_out and room > 1:
        lines.append(more(left_out, "pod"))
    return [fitted(line, width) for line in lines]


def _pending_line(name: Text, pod: Pod, wide: int, now: float) -> Text:
    """``wide``: cells for the name. What matters least comes last: a narrow terminal cuts it off."""
    waits = _WAITS.get(pod.waits, safe(pod.waits) or "pending")
    shown = fitted(name, wide)
    line = Text.assemble("  ", shown, " " * (wide - shown.cell_len + 2))
    line.append(f"{waits:<18}", style="red" if pod.waits == "capacity" else "yellow")
    line.append(f" {age(now - pod.since):>6}")
    line.append(f"  {cores(pod.cpu):>6} {mebibytes(pod.memory):>7}")
    words = [cause_of(pod.verdict), f"→ {pod.change}" if pod.change else "", pod.owner]
    return line.append("  " + "  ".join(safe(word) for word in words if word), style="dim")


def node_lines(groups: Sequence[Group], by: By, now: float, width: int, room: int) -> list[Text]:
    """A heading, and the groups with their nodes, at most ``room`` lines. ``now``: seconds since the epoch."""
    if not groups or room <= 0:
        return []
    shown, left_out = cut(len(groups), room - 1)
    kept = groups[:shown]
    rooms = _rooms(kept, room - 1 - shown - bool(left_out))
    cuts = [cut(len(group.rows), lines) for group, lines in zip(kept, rooms, strict=True)]
    rows = [row for group, (some, _) in zip(kept, cuts, strict=True) for row in group.rows[:some]]
    table = node_table(rows, by, now, width - 2)
    lines = [_indented(table.heading), *_group_lines(kept, cuts, rooms, by, table)]
    if left_out:
        lines.append(more(left_out, by))
    return [fitted(line, width) for line in lines[:room]]


def _rooms(groups: Sequence[Group], room: int) -> list[int]:
    """Lines of each group below its own. Nodes with which something happens come first in all groups."""
    changing = [group.changing for group in groups]
    quiet = [len(group.rows) - some for group, some in zip(groups, changing, strict=True)]
    return shares_in_turn(changing, quiet, room)


def _group_lines(
    groups: Sequence[Group],
    cuts: Sequence[tuple[int, int]],
    rooms: Sequence[int],
    by: By,
    table: Table,
) -> list[Text]:
    lines: list[Text] = []
    rows = iter(table.lines)
    for group, (shown, left_out), room in zip(groups, cuts, rooms, strict=True):
        lines.append(_group_line(group, by))
        lines += [_indented(next(rows)) for _ in range(shown)]
        if left_out and room:
            lines.append(more(left_out, "node"))
    return lines


def _indented(line: Text) -> Text:
    return Text.assemble("  ", line)


def _group_line(group: Group, by: By) -> Text:
    nodes = [row.node for row in group.rows]
    line = Text(safe(group.name) or f"no {by}", style="bold")
    line = Text.assemble(line, f"  {counted(len(nodes), 'node')}  {cost(nodes)}")
    line.append("  cpu ").append_text(
        percent(sum(row.cpu for row in group.rows), sum(node.cpu for node in nodes))
    )
    line.append("  mem ").append_text(
        percent(sum(row.memory for row in group.rows), sum(node.memory for node in nodes))
    )
    return line.append(f"  {counted(_pods(group.rows), 'pod')}")


def _pods(rows: Sequence[Row]) -> int:
    return sum(row.pods for row in rows)
