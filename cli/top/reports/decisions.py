"""The latest decisions: why, for how much, beside which bound and which other price, and what was rejected. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from cli.text import counted
from cli.top.cells import dollars, safe
from cli.top.reports.records import Decision, DecisionsReport, Rejection
from cli.top.words import cause_of, clock, hourly

MOST_REJECTIONS = 3
"""Reasons of one decision; the others are counted."""
MOST_NAMES = 3
_NEXT = "      "


def decision_lines(report: DecisionsReport, now: float, width: int) -> list[Text]:
    """Newest first, each with its details below it."""
    if not report.decisions:
        return [Text("Nothing was decided yet.", style="dim")]
    return [line for one in report.decisions for line in _lines_of(one)]


def _lines_of(one: Decision) -> Iterable[Text]:
    line = Text.assemble(
        (clock(one.at), "dim"), "  ", (safe(one.kind), "bold"), "  ", safe(one.text)
    )
    if one.pods:
        line.append(f"  {counted(one.pods, 'pod')}", style="dim")
    if one.cost:
        line.append(f"  {_cost(one.cost)}", style="green" if one.cost < 0 else "")
    yield line
    if one.reason:
        yield Text(f"{_NEXT}why: {safe(one.reason)}", style="dim")
    if words := [*_bound(one), *_policies(one)]:
        yield Text(_NEXT + "; ".join(words), style="dim")
    yield from _rejections(one.rejected)


def _cost(cost: float) -> str:
    return f"saves {hourly(-cost)}" if cost < 0 else f"costs {hourly(cost)}"


def _bound(one: Decision) -> Iterable[str]:
    if one.bound is None:
        return
    above = 100 * (one.cost - one.bound) / one.bound if one.cost and one.bound > 0 else None
    words = "" if above is None else f" ({max(0.0, above):.1f} % above it)"
    yield f"proven lower bound {hourly(one.bound)}{words}"


def _policies(one: Decision) -> Iterable[str]:
    for name, price in one.policies.items():
        yield f"{safe(name)} ${dollars(price.cost)}/h with {counted(price.machines, 'machine')}"


def _rejections(rejected: Sequence[Rejection]) -> Iterable[Text]:
    reasons: dict[str, list[str]] = {}
    for one in rejected:
        reasons.setdefault(cause_of(one.why), []).append(one.what)
    for why, whats in list(reasons.items())[:MOST_REJECTIONS]:
        names = ", ".join(safe(what) for what in whats[:MOST_NAMES])
        more = f" and {len(whats) - MOST_NAMES} more" if len(whats) > MOST_NAMES else ""
        yield Text(f"{_NEXT}rejected: {names}{more}: {safe(why)}", style="yellow")
    if (left := len(reasons) - MOST_REJECTIONS) > 0:
        yield Text(f"{_NEXT}and {counted(left, 'more reason')}", style="dim")
