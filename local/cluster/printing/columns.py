"""The output of ``kubectl get``: the columns of every kind and the cells of every object.

Follows ``pkg/printers/internalversion/printers.go`` for built-in kinds and additionalPrinterColumns for custom ones.
Columns of priority 0 are always shown, those of priority 1 with ``-o wide``. A kind without columns of its own shows
only name and age.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from local.cluster.printing.jsonpath import compile_path
from local.cluster.storage.selectors import selector_text
from local.cluster.storage.watches import Document
from shared.concurrency.clock import parse_rfc3339

NONE = "<none>"
UNKNOWN = "<unknown>"
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 31_536_000

Cell = Callable[[Document, float], Any]
"""The cell of an object at a time (seconds since the epoch)."""


@dataclass(frozen=True)
class Column:
    """One column. ``type`` is the OpenAPI type, ``priority`` 1 hides it without ``-o wide``."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""


def human_duration(seconds: float) -> str:
    """``12s``, ``3m4s``, ``2h5m``, ``6d3h``: apimachinery's ``HumanDuration``."""
    whole = max(int(seconds), 0)
    if whole < 2 * MINUTE:
        return f"{whole}s"
    for limit, big, letter, small, small_letter in (
        (10 * MINUTE, MINUTE, "m", 1, "s"),
        (3 * HOUR, MINUTE, "m", 0, ""),
        (8 * HOUR, HOUR, "h", MINUTE, "m"),
        (2 * DAY, HOUR, "h", 0, ""),
        (8 * DAY, DAY, "d", HOUR, "h"),
        (2 * YEAR, DAY, "d", 0, ""),
        (8 * YEAR, YEAR, "y", DAY, "d"),
    ):
        if whole < limit:
            rest = whole % big // small if small else 0
            return f"{whole // big}{letter}" + (f"{rest}{small_letter}" if rest else "")
    return f"{whole // YEAR}y"


def since(stamp: Any, now: float) -> str:
    """The time since an RFC 3339 stamp."""
    if not isinstance(stamp, str):
        return UNKNOWN
    try:
        return human_duration(now - parse_rfc3339(stamp))
    except ValueError:
        return "<invalid>"


def _age(document: Document, now: float) -> str:
    return since(document["metadata"].get("creationTimestamp"), now)


AGE = Column("Age", _age)


def at(path: str, default: Any = "") -> Cell:
    """A cell that shows the value at a dotted path."""
    names = path.split(".")

    def cell(document: Document, _now: float) -> Any:
        value: Any = document
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


NAME = Column("Name", at("metadata.name"), format="name")
"""The first column of every kind but events."""


def count(path: str) -> Cell:
    """A cell that shows a number, 0 when missing."""
    return at(path, 0)


def custom_columns(columns: tuple[dict[str, Any], ...]) -> list[Column]:
    """The columns of a custom resource; only its age when it defines none."""
    return [_custom_column(column) for column in columns] or [AGE]


def _custom_column(column: dict[str, Any]) -> Column:
    value_of = compile_path(column["jsonPath"])
    is_date = column.get("type") == "date"

    def cell(document: Document, now: float) -> Any:
        value = value_of(document)
        return since(value, now) if is_date and value else value

    return Column(
        column["name"],
        cell,
        "string" if is_date else column.get("type", "string"),
        column.get("priority", 0),
        column.get("description", ""),
    )


def _pod_ready(pod: Document, _now: float) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return (
        f"{sum(bool(s.get('ready')) for s in statuses)}/{len(pod['spec'].get('containers') or [])}"
    )


def _pod_status(pod: Document, _now: float) -> str:
    status = pod.get("status", {})
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    reason: str = status.get("reason") or status.get("phase") or "Pending"
    for condition in status.get("conditions") or []:
        if condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        waiting = (state.get("waiting") or state.get("terminated") or {}).get("reason")
        reason = waiting or reason
    return reason


def _pod_restarts(pod: Document, _now: float) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return str(sum(s.get("restartCount", 0) for s in statuses))


def _pod_gates(pod: Document, _now: float) -> str:
    gates = pod["spec"].get("readinessGates") or []
    return f"0/{len(gates)}" if gates else NONE


POD = [
    Column("Ready", _pod_ready),
    Column("Status", _pod_status),
    Column("Restarts", _pod_restarts),
    AGE,
    Column("IP", at("status.podIP", NONE), priority=1),
    Column("Node", at("spec.nodeName", NONE), priority=1),
    Column("Nominated Node", at("status.nominatedNodeName", NONE), priority=1),
    Column("Readiness Gates", _pod_gates, priority=1),
]


def _node_status(node: Document, _now: float) -> str:
    conditions = {c["type"]: c["status"] for c in node.get("status", {}).get("conditions") or []}
    text = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "Unknown")
    cordoned = node.get("spec", {}).get("unschedulable")
    return text + (",SchedulingDisabled" if cordoned else "")


def _node_roles(node: Document, _now: float) -> str:
    labels = node["metadata"].get("labels") or {}
    prefix = "node-role.kubernetes.io/"
    roles = sorted(name.removeprefix(prefix) for name in labels if name.startswith(prefix))
    return ",".join(role for role in roles if role) or NONE


def _node_address(kind: str) -> Cell:
    def cell(node: Document, _now: float) -> str:
        addresses = node.get("status", {}).get("addresses") or []
        return next((a["address"] for a in addresses if a.get("type") == kind), NONE)

    return cell


def _node_info(name: str, default: str) -> Cell:
    return at(f"status.nodeInfo.{name}", default)


NODE = [
    Column("Status", _node_status),
    Column("Roles", _node_roles),
    AGE,
    Column("Version", _node_info("kubeletVersion", "")),
    Column("Internal-IP", _node_address("InternalIP"), priority=1),
    Column("External-IP", _node_address("ExternalIP"), priority=1),
    Column("OS-Image", _node_info("osImage", UNKNOWN), priority=1),
    Column("Kernel-Version", _node_info("kernelVersion", UNKNOWN), priority=1),
    Column("Container-Runtime", _node_info("containerRuntimeVersion", UNKNOWN), priority=1),
]


def _template_containers(document: Document) -> list[Document]:
    template = document.get("spec", {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def _joined(field: str) -> Cell:
    def cell(document: Document, _now: float) -> str:
        return ",".join(str(c.get(field, "")) for c in _template_containers(document))

    return cell


def _selector(document: Document, _now: float) -> str:
    return selector_text(document.get("spec", {}).get("selector")) or NONE


WORKLOAD = [
    Column("Containers", _joined("name"), priority=1),
    Column("Images", _joined("image"), priority=1),
    Column("Selector", _selector, priority=1),
]


def _ready_of_desired(document: Document, _now: float) -> str:
    ready = document.get("status", {}).get("readyReplicas", 0)
    return f"{ready}/{document.get('spec', {}).get('replicas', 0)}"


DEPLOYMENT = [
    Column("Ready", _ready_of_desired),
    Column("Up-to-date", count("status.updatedReplicas"), "integer"),
    Column("Available", count("status.availableReplicas"), "integer"),
    AGE,
    *WORKLOAD,
]
REPLICA_SET = [
    Column("Desired", count("spec.replicas"), "integer"),
    Column("Current", count("status.replicas"), "integer"),
    Column("Ready", count("status.readyReplicas"), "integer"),
    AGE,
    *WORKLOAD,
]
STATEFUL_SET = [Column("Ready", _ready_of_desired), AGE, *WORKLOAD[:2]]


def _node_selector(document: Document, _now: float) -> str:
    spec = (document["spec"].get("template") or {}).get("spec") or {}
    return ",".join(f"{k}={v}" for k, v in (spec.get("nodeSelector") or {}).items()) or NONE


DAEMON_SET = [
    Column("Desired", count("status.desiredNumberScheduled"), "integer"),
    Column("Current", count("status.currentNumberScheduled"), "integer"),
    Column("Ready", count("status.numberReady"), "integer"),
    Column("Up-to-date", count("status.updatedNumberScheduled"), "integer"),
    Column("Available", count("status.numberAvailable"), "integer"),
    Column("Node Selector", _node_selector),
    AGE,
    *WORKLOAD,
]
