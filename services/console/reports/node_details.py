"""Everything that the page shows of one node."""

from __future__ import annotations

from typing import Any

import msgspec

from services.console.picture.picture import Picture
from services.console.reports.decisions import Decisions
from services.console.reports.events import events_of
from services.console.reports.peers import Peers
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.resources import format_resources
from shared.kube.client import Kube

STEPS = {
    "Launched": "the instance was launched",
    "Registered": "the node joined and was registered",
    "Initialized": "the node was initialized: pods may run",
    "Drifted": "it drifted from its pool or node class",
    "Empty": "no pod needs it",
    "Expired": "it passed its maximum age",
    "Consolidatable": "it may be consolidated",
    "DisruptionReason": "a disruption command took it",
    "Drained": "the drain ended",
    "VolumesDetached": "its volumes are detached",
    "InstanceTerminating": "the instance is being terminated",
}


async def node_details(
    picture: Picture, peers: Peers, kube: Kube, decisions: Decisions, row_id: str
) -> dict[str, Any] | None:
    """None for an id that the picture does not hold."""
    row = picture.nodes.get(row_id)
    if row is None:
        return None
    machine, node = picture.machine(row_id), picture.node(row.name)
    events, problem = await events_of(kube, row.name or row.machine)
    explained: dict[str, Any] = {}
    if machine is not None:
        answer, why_not = await peers.ask_scheduler("/explain", {"node": row.name or row.machine})
        explained, problem = answer or {}, "; ".join(filter(None, (problem, why_not)))
    return {
        "node": msgspec.to_builtins(row),
        "labels": shown_labels(machine, node),
        "taints": sorted(taint_text(one) for one in (node.taints if node else ())),
        "conditions": conditions(machine),
        "timeline": timeline(machine, node),
        "events": events,
        "pods": [msgspec.to_builtins(pod) for pod in picture.pods_on(row_id)],
        "bought": bought(machine),
        "decision": decision_of(machine, decisions),
        "stays": [_stay(one) for one in explained.get("staysBecause", ())],
        "command": str(explained.get("command") or row.why),
        "problem": problem,
    }


def shown_labels(machine: Machine | None, node: Node | None) -> dict[str, str]:
    """The labels that scheduling may use, of the node when there is one."""
    labels = node.labels if node else machine.labels if machine else {}
    return dict(sorted(labels.items()))


def taint_text(taint: Taint) -> str:
    """As kubectl writes it: key=value:effect."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def conditions(machine: Machine | None) -> list[dict[str, Any]]:
    """By type."""
    found = machine.conditions.items() if machine else ()
    return [
        {
            "type": name,
            "status": c.status,
            "reason": c.reason,
            "message": c.message,
            "since": c.since,
        }
        for name, c in sorted(found)
    ]


def timeline(machine: Machine | None, node: Node | None) -> list[dict[str, Any]]:
    """What happened when, oldest first. Times are seconds since the epoch."""
    found: list[tuple[float, str]] = []
    if machine is not None:
        found.append((machine.created_at, "the scheduler created the machine"))
        found += [
            (c.since, STEPS[n])
            for n, c in machine.conditions.items()
            if n in STEPS and c.status == "True"
        ]
        found += [(machine.deleted_at, "it was deleted: the drain begins")] * bool(
            machine.deleted_at
        )
    if node is not None:
        found.append((node.created_at, "the node appeared in the cluster"))
    return [{"at": at, "text": text} for at, text in sorted(found) if at]


def bought(machine: Machine | None) -> str:
    """Why the machine was bought, as far as it is noted on it."""
    asked = format_resources(machine.requests) if machine else {}
    named = ", ".join(f"{name} {amount}" for name, amount in sorted(asked.items()))
    return f"For pods that request, with the daemon sets: {named}" if named else ""


def decision_of(machine: Machine | None, decisions: Decisions) -> dict[str, Any] | None:
    """The plan or command that bought it, if the console saw it: its time and text."""
    plan = machine.annotations.get(keys.PLAN_ANNOTATION, "") if machine else ""
    found = decisions.of(plan) if plan else None
    return {"at": found["at"], "text": found.get("text", "")} if found else None


def _stay(one: dict[str, Any]) -> dict[str, str]:
    pod = f" ({one['pod']})" if one.get("pod") else ""
    return {"text": f"{one.get('text', '')}{pod}", "change": str(one.get("change") or "")}
