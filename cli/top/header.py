"""The first lines of the picture: totals, the connection, and whether the picture can be trusted. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from cli.text import counted
from cli.top.cells import age, dollars, fitted, safe
from cli.top.records import Node
from cli.top.state import Picture, Received
from shared.concurrency.clock import rfc3339

OLD_SECONDS = 15.0
"""A picture is old after this time without a message: the console sends one at least every five seconds."""
_HINT = "  q ends"
MOST_LINES = 3
"""For the totals, and for the warnings: on a narrow terminal the nodes need the other lines."""


def header_lines(known: Received, live: bool, now: float, width: int) -> list[Text]:
    """At most six lines. ``now``: monotonic seconds. Not ``live``: the time of the picture replaces the connection."""
    if known.picture is None:
        return [fitted(Text(known.problem or "waits for the console", style="yellow"), width)]
    parts = [*_totals(known.picture), *_status(known, live, now)]
    words = [Text(word) for text in _warnings(known, live, now) for word in text.split()]
    lines = flowed(parts, 2, width)
    if live and lines[-1].cell_len + len(_HINT) <= width:
        lines[-1].append(_HINT, style="dim")
    return [*lines, *(Text(line.plain, "yellow") for line in flowed(words, 1, width))]


def _totals(picture: Picture) -> Iterable[Text]:
    pending = sum(pod.state == "pending" for pod in picture.pods.values())
    yield Text(safe(picture.cluster) or "cluster", style="bold")
    yield Text(counted(len(picture.nodes), "node"))
    yield Text(counted(len(picture.pods), "pod"))
    yield Text(f"{pending} pending", style="bold yellow" if pending else "")
    yield Text(cost(picture.nodes.values()))


def cost(nodes: Iterable[Node]) -> str:
    """``$1.2000/h``, and for how many nodes the price is not known."""
    prices = [node.price for node in nodes]
    known = [price for price in prices if price is not None]
    unknown = len(prices) - len(known)
    return f"${dollars(sum(known))}/h" + (f" + {unknown} unknown" if unknown else "")


def _status(known: Received, live: bool, now: float) -> Iterable[Text]:
    picture = known.picture
    assert picture is not None
    if not live:
        yield Text(_timestamp(picture.at))
    elif known.problem:
        yield Text("not connected", style="bold red")
    elif now - known.heard > OLD_SECONDS:
        yield Text("old picture", style="bold red")
    else:
        yield Text("live", style="green")
    yield Text("trusted", style="green") if picture.trusted.ok else Text("not trusted", "bold red")
    if picture.trusted.heard > 0:
        yield Text(f"as of {age(picture.trusted.heard)} ago", style="dim")


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def _timestamp(at: float) -> str:
    try:
        return rfc3339(at)
    except (ValueError, OverflowError, OSError):  # no year of the calendar
        return "at an unknown time"


def _warnings(known: Received, live: bool, now: float) -> Iterable[str]:
    """In full sentences, what restricts the use of the picture."""
    picture, silent = known.picture, now - known.heard
    if picture is not None and not picture.trusted.ok:
        yield _sentence(f"Not trusted: {safe(picture.trusted.reason) or 'no reason is given'}")
    if picture is not None and picture.trusted.missing:
        yield _sentence(safe(picture.trusted.missing))
    if live and known.problem:
        wait = max(0, round(known.retry - now))
        yield f"No connection: {safe(known.problem)}; next attempt in {wait} s."
    if live and silent > OLD_SECONDS:
        yield f"The picture is {silent:.0f} s old."


def flowed(parts: Sequence[Text], gap: int, width: int) -> list[Text]:
    """The parts with ``gap`` cells between them, on as few lines as fit, and at most MOST_LINES."""
    lines: list[list[Text]] = []
    used = width + 1
    for part in parts:
        used += gap + part.cell_len
        if used > width and len(lines) < MOST_LINES:
            lines.append([])
            used = part.cell_len
        lines[-1].append(part)
    return [fitted(Text(" " * gap).join(line), width) for line in lines]
