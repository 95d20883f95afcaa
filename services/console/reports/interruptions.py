"""Nodes that EC2 announced to take away: their deadlines, and where their pods go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.console.picture.picture import Picture
from services.console.picture.rows import NodeRow, PodRow
from services.console.reports.evacuations import MARKS, Evacuations

KEPT_SECONDS = 600.0
"""A node that is gone is still listed for so long after its notice."""


def interruptions(
    recent: Iterable[Mapping[str, Any]],
    picture: Picture,
    evacuations: Evacuations,
    targets: Mapping[str, str],
    *,
    now: float,
) -> list[dict[str, Any]]:
    """``recent``: of the interruption service's status. ``targets``: pod -> node or machine that was planned for it."""
    nodes = picture.nodes
    found = {one["node"]: one for one in _closed(nodes)}
    for notice in recent:
        row = nodes.get(str(notice.get("machine")))
        if row is not None or now - float(notice.get("since") or 0) < KEPT_SECONDS:
            found[str(notice.get("machine"))] = _of_notice(notice, row)
    places = {name: row for row in nodes.values() for name in (row.machine, row.name) if name}
    for key, one in found.items():
        one["goneAt"] = evacuations.gone_at(key)
        one["pods"] = [
            _pod(pod, key, picture, places, targets) for pod in evacuations.pods_of(key).values()
        ]
    return sorted(found.values(), key=lambda one: (one["state"] == "gone", one["deadline"] or now))


def _closed(nodes: Mapping[str, NodeRow]) -> Iterable[dict[str, Any]]:
    """Nodes that were closed because of a notice, and not deleted."""
    for row in nodes.values():
        kind = next((mark for mark in row.marks if mark in MARKS), "")
        if kind:
            yield _entry(row.id, row.name, kind, row.deadline, row.created, row.state)


def _of_notice(notice: Mapping[str, Any], row: NodeRow | None) -> dict[str, Any]:
    kind = str(notice.get("kind") or "").replace("_", " ")
    state = row.state if row else "gone"
    name = str(notice.get("node") or "")
    since = float(notice.get("since") or 0)
    return _entry(str(notice.get("machine")), name, kind, notice.get("deadline"), since, state)


def _entry(
    key: str, name: str, kind: str, deadline: float | None, since: float, state: str
) -> dict[str, Any]:
    return {
        "node": key,
        "name": name,
        "kind": kind,
        "deadline": deadline,
        "since": since,
        "state": state,
    }


def _pod(
    pod: PodRow,
    node: str,
    picture: Picture,
    places: Mapping[str, NodeRow],
    targets: Mapping[str, str],
) -> dict[str, Any]:
    """``goesTo``: where it runs now, or what was planned for it, empty for nothing yet; ``target``: that node's row."""
    now = picture.pods.get(pod.id)
    if now is not None and now.node not in ("", node):
        return _going(pod, "moved", picture.nodes.get(now.node), "")
    target = targets.get(pod.name, "")
    state = "left" if now is None or now.node != node else "there"
    return _going(pod, state, places.get(target), target)


def _going(pod: PodRow, state: str, place: NodeRow | None, target: str) -> dict[str, Any]:
    name = (place.name or place.machine) if place else target
    return {
        "name": pod.name,
        "state": state,
        "goesTo": name,
        "target": place.id if place else "",
        "type": place.type if place else "",
    }
