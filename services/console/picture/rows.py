"""Rows of the page: one node or one pod, from the records of the mirror.

Pure. Amounts are millicores, bytes and US dollars an hour. Only what concerns scheduling is in a row: no environment,
no command, no annotation of a user.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from shared.domain import labels as keys
from shared.domain.machines import commands
from shared.domain.machines.machine import (
    CONSOLIDATABLE,
    DRIFTED,
    EMPTY,
    EXPIRED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    Machine,
)
from shared.domain.nodes import Node
from shared.domain.resources import CPU, MEMORY, PODS
from shared.domain.workloads.pods import Pod

INTERRUPTION_TAINTS = {
    keys.SPOT_ITN_TAINT_KEY: "interrupted",
    keys.REBALANCE_TAINT_KEY: "rebalance recommended",
    keys.MAINTENANCE_TAINT_KEY: "maintenance",
    keys.LIFECYCLE_TAINT_KEY: "leaving its group",
    keys.IMPAIRED_TAINT_KEY: "impaired",
}
_MARKED = {DRIFTED: "drifted", EXPIRED: "expired", EMPTY: "empty", CONSOLIDATABLE: "consolidatable"}


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node, or one machine that has no node yet."""

    id: str
    """``NodeClaim/default-abc`` or ``Machine/...``; ``Node/name`` for a node that Dovetail does not manage."""
    name: str
    machine: str
    pool: str
    type: str
    zone: str
    capacity_type: str
    price: float | None
    created: float
    state: str
    marks: tuple[str, ...]
    why: str
    deadline: float | None
    cpu: int
    memory: int
    pod_limit: int


class PodRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One unfinished pod. ``node``: id of its node row, empty while it has no node."""

    id: str
    name: str
    node: str
    cpu: int
    memory: int
    state: str
    since: float
    daemon: bool
    owner: str
    waits: str
    verdict: str = ""
    """Why the scheduler's last plan has no place for it."""
    change: str = ""
    """The smallest change that would place it, when that is known."""


class Words(NamedTuple):
    """What is said of a pending pod."""

    verdict: str
    change: str


def node_id(machine: Machine | None, node: Node | None) -> str:
    """The id of the row: of the machine, if there is one."""
    if machine is not None:
        return machine.key
    return f"Node/{node.name}" if node is not None else ""


def node_row(machine: Machine | None, node: Node | None) -> NodeRow:
    """The row of a machine, of its node, or of both; one of them must be given."""
    labels = (machine.labels if machine else {}) | (node.labels if node else {})
    amounts = (node.allocatable if node else None) or (machine.allocatable if machine else {})
    return NodeRow(
        id=node_id(machine, node),
        name=node.name if node else "",
        machine=machine.name if machine else "",
        pool=machine.pool if machine else node.pool if node else "",
        type=labels.get(keys.INSTANCE_TYPE, ""),
        zone=labels.get(keys.ZONE, ""),
        capacity_type=labels.get(keys.CAPACITY_TYPE, ""),
        price=price_of(machine),
        created=(machine or node).created_at,  # type: ignore[union-attr]  # one of them is there
        state=_state(machine, node),
        marks=tuple(_marks(machine, node)),
        why=_why(machine),
        deadline=machine.terminate_at if machine else None,
        cpu=amounts.get(CPU, 0),
        memory=amounts.get(MEMORY, 0),
        pod_limit=amounts.get(PODS, 0),
    )


def price_of(machine: Machine | None) -> float | None:
    """US dollars an hour, as known at the launch; None without a note."""
    noted = machine.noted_price if machine else None
    return None if noted is None else noted / 1e6


def _state(machine: Machine | None, node: Node | None) -> str:
    if machine is None:
        return _state_of_unmanaged(node)
    if machine.terminating:
        return "terminating" if machine.has(INSTANCE_TERMINATING) else "draining"
    if not machine.has(LAUNCHED):
        return "launching"
    if not machine.has(REGISTERED):
        return "registering"
    return "ready" if machine.has(INITIALIZED) else "initializing"


def _state_of_unmanaged(node: Node | None) -> str:
    if node is None or node.terminating:
        return "terminating"
    return "ready" if node.ready else "initializing"


def _marks(machine: Machine | None, node: Node | None) -> list[str]:
    found = []
    if node is not None:
        found += [text for key, text in INTERRUPTION_TAINTS.items() if _tainted(node, key)]
        found += ["cordoned"] * node.unschedulable
        found += ["not ready"] * (not node.ready)
    if machine is not None:
        found += [text for condition, text in _MARKED.items() if machine.has(condition)]
        found += ["being replaced"] * (commands.holder(machine) is not None)
        found += ["rebalance recommended"] * (keys.REPLACE_ANNOTATION in machine.annotations)
    return list(dict.fromkeys(found))


def _tainted(node: Node, key: str) -> bool:
    return any(taint.key == key for taint in node.taints)


def _why(machine: Machine | None) -> str:
    """Why it is going: the command that holds it, in its own words."""
    held = commands.holder(machine) if machine else None
    return (held.text or held.reason) if held else ""


def pod_row(key: str, pod: Pod, node: str) -> PodRow:
    """``key``: of the mirror. ``node``: id of the node row that has the pod's node."""
    return PodRow(
        id=key,
        name=pod.key,
        node=node,
        cpu=pod.requests.get(CPU, 0),
        memory=pod.requests.get(MEMORY, 0),
        state=_pod_state(pod),
        since=pod.started_at or pod.created_at,
        daemon=pod.is_daemon or pod.is_mirror,
        owner=f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else "",
        waits=_waits(pod),
    )


def _pod_state(pod: Pod) -> str:
    if pod.terminating:
        return "terminating"
    if not pod.node_name:
        return "pending"
    return "running" if pod.phase == "Running" else "starting"


def _waits(pod: Pod) -> str:
    if pod.node_name or pod.terminating:
        return ""
    if pod.nominated_node:
        return "nominated"
    return "capacity" if pod.unschedulable else "scheduling"
