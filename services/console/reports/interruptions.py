"""Nodes that EC2 announced to take away: their deadlines, and where their pods go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.console.picture.rows import INTERRUPTION_TAINTS, NodeRow, PodRow

KEPT_SECONDS = 600.0
"""A node that is gone is still listed for so long after its notice."""


def interruptions(
    recent: Iterable[Mapping[str, Any]],
    nodes: Mapping[str, NodeRow],
    pods: Iterable[PodRow],
    targets: Mapping[str, str],
    *,
    now: float,
) -> list[dict[str, Any]]:
    """``recent``: of the interruption service's status. ``targets``: pod -> node or machine that was planned for it."""
    on_node: dict[str, list[PodRow]] = {}
    for pod in pods:
        if not pod.daemon:
            on_node.setdefault(pod.node, []).append(pod)
    found = {one["node"]: one for one in _closed(nodes)}
    for notice in recent:
        row = nodes.get(str(notice.get("machine")))
        if row is not None or now - float(notice.get("since") or 0) < KEPT_SECONDS:
            found[str(notice.get("machine"))] = _of_notice(notice, row)
    for key, one in found.items():
        one["pods"] = [_pod(pod, targets) for pod in on_node.get(key, ())]
    return sorted(found.values(), key=lambda one: (one["state"] == "gone", one["deadline"] or now))


def _closed(nodes: Mapping[str, NodeRow]) -> Iterable[dict[str, Any]]:
    """Nodes that were closed because of a notice, and not deleted."""
    for row in nodes.values():
        kind = next((mark for mark in row.marks if mark in INTERRUPTION_TAINTS.values()), "")
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


def _pod(pod: PodRow, targets: Mapping[str, str]) -> dict[str, Any]:
    target = targets.get(pod.name, "")
    return {"name": pod.name, "goesTo": target, "waits": not target}
