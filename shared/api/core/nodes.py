"""core/v1 Node -> domain record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.shapes import entries, mapping, text
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.nodes import Node
from shared.domain.resources import parse_resources
from shared.errors import InvalidObject

Json = Mapping[str, Any]
_ANNOTATIONS = ("karpenter", "dovetail.sh/")


def parse_node(raw: Json) -> Node:
    """The planner's record of a node. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    labels = {keys.normalise(k): v for k, v in (meta.get("labels") or {}).items()}
    return Node(
        uid=meta["uid"],
        name=meta["name"],
        provider_id=text(spec.get("providerID"), "spec.providerID"),
        created_at=parse_rfc3339(meta["creationTimestamp"]),
        labels=labels,
        annotations={
            k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith(_ANNOTATIONS)
        },
        taints=parse_taints(spec.get("taints")),
        unschedulable=bool(spec.get("unschedulable")),
        ready=is_ready(status),
        terminating=bool(meta.get("deletionTimestamp")),
        finalizers=tuple(meta.get("finalizers") or ()),
        capacity=parse_resources(status.get("capacity"), field="status.capacity"),
        allocatable=parse_resources(status.get("allocatable"), field="status.allocatable"),
    )


def parse_taints(raw: object) -> tuple[Taint, ...]:
    """Taints of a node's spec. Raises InvalidObject naming the entry."""
    return tuple(
        _taint(one, f"spec.taints[{index}]")
        for index, one in enumerate(entries(raw, "spec.taints"))
    )


def _taint(raw: Json, field: str) -> Taint:
    key, value, effect = (text(raw.get(n), f"{field}.{n}") for n in ("key", "value", "effect"))
    if not key or not effect:
        raise InvalidObject("needs key and effect; value is optional", field=field)
    return Taint(key, effect, value)


def taint_objects(taints: tuple[Taint, ...]) -> list[dict[str, str]]:
    """The inverse of ``parse_taints``."""
    return [
        {"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})}
        for t in taints
    ]


def is_ready(status: Json) -> bool:
    """Whether the Ready condition is True. Raises InvalidObject."""
    return any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in entries(status.get("conditions"), "status.conditions")
    )
