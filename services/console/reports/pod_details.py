"""Everything that the page shows of one pod: for a pending one the scheduler's verdict and the smallest change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from services.console.picture.picture import Picture
from services.console.reports.events import events_of
from services.console.reports.peers import Peers
from shared.domain.workloads.pods import Pod
from shared.kube.client import Kube


async def pod_details(
    picture: Picture, peers: Peers, kube: Kube, key: str, pod: Pod | None
) -> dict[str, Any] | None:
    """None for a pod that the picture does not hold. ``pod``: its record, for the labels."""
    row = picture.pods.get(key)
    if row is None:
        return None
    namespace, _, name = key.partition("/")
    events, problem = await events_of(kube, name, namespace)
    explained: Mapping[str, Any] = {}
    if row.state == "pending":
        answer, why_not = await peers.ask_scheduler("/explain", {"pod": key})
        explained, problem = answer or {}, "; ".join(filter(None, (problem, why_not)))
    return {
        "pod": msgspec.to_builtins(row),
        "labels": dict(sorted(pod.labels.items())) if pod else {},
        "events": events,
        "verdict": str(explained.get("verdict") or ""),
        "change": smallest_change(key, explained),
        "problem": problem,
    }


def smallest_change(key: str, explained: Mapping[str, Any]) -> dict[str, Any] | None:
    """The change in words, and the command that shows it with its effects; None when there is none."""
    edits = explained.get("changes") or []
    if not edits:
        return None
    return {
        "text": change_text(explained),
        "commands": [
            f"dovetail explain pod {key}",
            *sorted({_edit_command(edit) for edit in edits}),
        ],
    }


def change_text(explained: Mapping[str, Any]) -> str:
    """The smallest change in words; empty when there is none."""
    return "; and ".join(str(edit.get("text") or "") for edit in explained.get("changes") or [])


def _edit_command(edit: Mapping[str, Any]) -> str:
    """``kubectl edit`` of the object that the edit names as ``Kind name`` or ``Kind namespace/name``."""
    kind, _, name = str(edit.get("object") or "").partition(" ")
    namespace, slash, bare = name.partition("/")
    return f"kubectl edit {kind.lower()} " + (f"-n {namespace} {bare}" if slash else name)
