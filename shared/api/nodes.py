"""core/v1 Node -> domain record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.nodes import Node
from shared.domain.resources import parse_resources

Json = Mapping[str, Any]


def parse_node(raw: Json) -> Node:
    """The planner's record of a node. Raises InvalidObject for a quantity that does not parse."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = {keys.normalise(k): v for k, v in (meta.get("labels") or {}).items()}
    return Node(
        uid=meta["uid"],
        name=meta["name"],
        provider_id=spec.get("providerID") or "",
        created_at=parse_rfc3339(meta["creationTimestamp"]),
        labels=labels,
        annotations={
            k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith("karpenter")
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
    """Taints as the API server stores them; the server has checked them."""
    return tuple(
        Taint(t["key"], t["effect"], t.get("value") or "")
        for t in (raw if isinstance(raw, list) else [])
    )


def taint_objects(taints: tuple[Taint, ...]) -> list[dict[str, str]]:
    """The inverse of ``parse_taints``."""
    return [
        {"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})}
        for t in taints
    ]


def is_ready(status: Json) -> bool:
    """Is the Ready condition True?"""
    return any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )
