"""core/v1 Node -> domain record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.core.label_syntax import is_label_value, is_qualified_name
from shared.api.shapes import entries, mapping, text
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.nodes import Node
from shared.domain.resources import parse_resources
from shared.domain.workloads.scale_down import SCALE_DOWN_DISABLED
from shared.errors import InvalidObject

Json = Mapping[str, Any]
_ANNOTATIONS = ("karpenter", "dovetail.sh/", SCALE_DOWN_DISABLED)


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
        taints=parse_taints(spec, "taints"),
        unschedulable=bool(spec.get("unschedulable")),
        ready=is_ready(status),
        terminating=bool(meta.get("deletionTimestamp")),
        finalizers=tuple(meta.get("finalizers") or ()),
        capacity=parse_resources(status.get("capacity"), field="status.capacity"),
        allocatable=parse_resources(status.get("allocatable"), field="status.allocatable"),
    )


def parse_taints(spec: Json, name: str, *, strict: bool = False) -> tuple[Taint, ...]:
    """The taints in this field of a spec. ``strict``: check the syntax of key and value.

    Raises InvalidObject naming the entry.
    """
    found = []
    for index, raw in enumerate(entries(spec.get(name), f"spec.{name}")):
        field = f"spec.{name}[{index}]"
        key, value, effect = (text(raw.get(n), f"{field}.{n}") for n in ("key", "value", "effect"))
        is_valid = not strict or (is_qualified_name(key) and is_label_value(value))
        if not key or not effect or not is_valid:
            raise InvalidObject("needs key and effect; value is optional", field=field)
        found.append(Taint(key, effect, value))
    return tuple(found)


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
