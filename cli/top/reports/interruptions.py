"""Nodes that AWS takes away: their deadlines, and where their pods go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from cli.text import counted
from cli.top.cells import age, safe
from cli.top.reports.records import Interruption, InterruptionsReport, Moving


def interruption_lines(report: InterruptionsReport, now: float, width: int) -> list[Text]:
    """Each node with its deadline, and its pods by where they go. ``now``: seconds since the epoch."""
    if not report.interruptions:
        return [Text("No node is being interrupted.", style="dim")]
    return [line for one in report.interruptions for line in _lines_of(one, now)]


def _lines_of(one: Interruption, now: float) -> Iterable[Text]:
    line = Text.assemble((safe(one.name or one.node), "bold"), "  ", (safe(one.kind), "yellow"))
    if one.state != "gone":
        line.append(f"  {safe(one.state)}")
    yield line.append("  ").append_text(_deadline(one, now))
    if not one.pods:
        yield Text("  no pods but those of DaemonSets", style="dim")
    for place, pods in _by_place(one.pods).items():
        yield _group(place, pods)


def _deadline(one: Interruption, now: float) -> Text:
    if one.state == "gone":
        return Text(_gone(one), style="dim")
    if one.deadline is None:
        return Text(f"no deadline; announced {age(now - one.since)} ago", style="dim")
    left = one.deadline - now
    return Text(f"{age(left)} left" if left > 0 else "deadline passed", style="bold red")


def _gone(one: Interruption) -> str:
    if one.gone_at is None or one.deadline is None:
        return "gone"
    early = one.deadline - one.gone_at
    return f"gone {age(abs(early))} {'before' if early >= 0 else 'after'} its deadline"


def _by_place(pods: Sequence[Moving]) -> dict[tuple[str, str], list[Moving]]:
    """Node and its type -> pods; those without a place first, then where most go."""
    found: dict[tuple[str, str], list[Moving]] = {}
    for pod in pods:
        found.setdefault((pod.goes_to, pod.type), []).append(pod)
    return dict(sorted(found.items(), key=lambda one: (one[0][0] != "", -len(one[1]), one[0])))


def _group(place: tuple[str, str], pods: Sequence[Moving]) -> Text:
    name, type_ = place
    still = sum(pod.state == "there" for pod in pods)
    line = Text(f"  {counted(len(pods), 'pod')} ")
    if name:
        line.append(f"→ {safe(name)} {safe(type_)}".rstrip())
    else:
        line.append("no place yet", style="red")
    return line.append(f"  {still} still here" if still else "  all left", style="dim")
