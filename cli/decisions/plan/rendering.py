"""The effect of changed manifests for people: a table for a terminal, Markdown for a review comment. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cli.text import counted

Json = Mapping[str, Any]
MOST_ROWS = 50
"""Machines, and pods, that are shown; further ones are counted. JSON has all."""
HEADINGS = ("NODE", "POOL", "WHAT", "WHY", "$/H", "PODS", "BY", "FROM", "UNTIL")
NOTHING = "No machine, pod or price changes."
NOTHING_KNOWN = "Nothing changes but what AWS alone knows (see the note)."


def table_lines(answer: Json) -> Iterator[str]:
    """Lines for a terminal, without colours."""
    yield from _changed(answer)
    rows = [_row(one) for one in answer["machines"]]
    if rows:
        widths = [max(map(len, column)) for column in zip(HEADINGS, *rows[:MOST_ROWS], strict=True)]
        for row in (HEADINGS, *rows[:MOST_ROWS]):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            yield "  ".join(cells).rstrip()
        yield from _more(rows, "machine")
    yield from _others(answer)
    yield summary(answer)
    yield from (f"note: {note}" for note in answer["notes"])


def markdown_lines(answer: Json) -> Iterator[str]:
    """A comment for a review: the summary first, details below it."""
    yield f"**{summary(answer)}**"
    yield ""
    yield from (f"- {line}" for line in _changed(answer))
    rows = [_row(one) for one in answer["machines"]]
    if rows:
        yield ""
        yield _markdown_row(HEADINGS)
        yield _markdown_row(["---"] * len(HEADINGS))
        yield from (_markdown_row(row) for row in rows[:MOST_ROWS])
        yield from _more(rows, "machine")
    others = list(_others(answer))
    if others or answer["notes"]:
        yield ""
        yield from (f"- {_escaped(line)}" for line in others)
        yield from (f"- note: {_escaped(note)}" for note in answer["notes"])


def summary(answer: Json) -> str:
    """One line: cost, machines, time, pods."""
    cost, disrupted = answer["cost"], answer["disrupted"]
    parts = [
        f"${cost['now']:.4f} per hour now, ${cost['after']:.4f} after ({_percent(cost)})",
        f"{disrupted['machines']} of {counted(disrupted['of'], 'machine')} disrupted"
        + (f" within {duration(answer['seconds'])}" if disrupted["machines"] else ""),
        f"{counted(len(answer['unschedulable']), 'more pod')} without a place",
    ]
    if answer["unfinished"]:
        parts.append("not finished while the cluster was watched")
    text = ", ".join(parts)
    if not is_nothing(answer):
        return text
    return f"{NOTHING_KNOWN if answer['mayDrift'] else NOTHING} {text}"


def is_nothing(answer: Json) -> bool:
    """Would nothing happen that does not happen without the changes?"""
    lists = ("staying", "notAnyMore", "launched", "notLaunched", "unschedulable")
    return not (
        answer["disrupted"]["machines"]
        or any(answer[name] for name in lists)
        or answer["cost"]["change"]
    )


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``, ``2.0 d``: estimates, so not finer."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


def _percent(cost: Json) -> str:
    whole, change = cost["withoutChanges"], cost["change"]
    share = f"{100 * change / whole:+.1f} %" if whole else f"{change:+.4f} $"
    return share if cost["now"] == whole else f"{share} of ${whole:.4f} without the changes"


def _changed(answer: Json) -> Iterator[str]:
    for one in answer["changes"]:
        what = "new" if one["new"] else ", ".join(one["fields"])
        yield f"{one['object']}: {what}"


def _row(one: Json) -> tuple[str, ...]:
    what = "replace" if one["replacements"] else "remove"
    why = one["drift"] or one["reason"]
    price = one["price"]
    return (
        one["node"] or one["machine"],
        one["pool"].partition("/")[2],
        what,
        f"{why} (anyway)" if one["anyway"] else why,
        "?" if price is None else f"{price:.4f}",
        str(one["pods"]),
        ", ".join(_offering(new) for new in one["replacements"]) or "-",
        duration(one["begins"]),
        duration(one["ends"]),
    )


def _offering(new: Json) -> str:
    return f"{new['instanceType']} {new['zone']} {new['capacityType']} ${new['price']:.4f}"


def _others(answer: Json) -> Iterator[str]:
    for one in answer["staying"][:MOST_ROWS]:
        yield f"stays {one['node'] or one['machine']} ({one['drift']}): {one['why']}"
    yield from _more(answer["staying"], "machine")
    for one in answer["notAnyMore"][:MOST_ROWS]:
        yield f"kept {one['node'] or one['machine']}: without the changes it goes ({one['reason']})"
    yield from _more(answer["notAnyMore"], "machine")
    for one in answer["launched"][:MOST_ROWS]:
        purpose = counted(one["pods"], "pod") if one["pods"] else "its replicas"
        yield f"launch {_offering(one)} of {one['pool']} for {purpose}"
    yield from _more(answer["launched"], "machine")
    for one in answer["notLaunched"][:MOST_ROWS]:
        yield f"not launched any more: {_offering(one)} of {one['pool']}"
    yield from _more(answer["notLaunched"], "machine")
    for one in answer["unschedulable"][:MOST_ROWS]:
        yield f"without a place {one['pod']}: {one['reason']}"
    yield from _more(answer["unschedulable"], "pod")


def _more(rows: Sequence[object], noun: str) -> Iterator[str]:
    if len(rows) > MOST_ROWS:
        yield f"and {counted(len(rows) - MOST_ROWS, f'more {noun}')}: -o json"


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    """Text of unknown origin must not end a cell, nor become a link or HTML."""
    for character in "\\|<>[]`*_":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
