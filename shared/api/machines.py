"""karpenter.sh/v1alpha5 Machine <-> domain record (M-01..07)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.label_syntax import is_label_value, is_qualified_name
from shared.api.nodes import taint_objects
from shared.api.pods import parse_expressions
from shared.api.shapes import entries, mapping, text
from shared.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.machines import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodepools import NodePool
from shared.domain.resources import format_resources, parse_resources
from shared.errors import InvalidObject
from shared.solver.plan import PlannedMachine

API_VERSION = "karpenter.sh/v1alpha5"
OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})
Json = Mapping[str, Any]
READY = "Ready"
LIVING = (LAUNCHED, REGISTERED, INITIALIZED)
"""M-03: a Machine is ready when these are True."""


def parse_machine(raw: Json) -> Machine:
    """The record of a stored Machine. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    requests = mapping(spec.get("resources"), "spec.resources").get("requests")
    reference = mapping(spec.get("machineTemplateRef"), "spec.machineTemplateRef")
    labels = meta.get("labels") or {}
    return Machine(
        uid=meta["uid"],
        name=meta["name"],
        pool=labels.get(keys.PROVISIONER_NAME) or labels.get(keys.NODE_POOL) or "",
        created_at=parse_rfc3339(meta["creationTimestamp"]),
        labels=labels,
        annotations=meta.get("annotations") or {},
        requirements=parse_expressions(
            spec.get("requirements"), field="spec.requirements", operators=OPERATORS
        ),
        requests=parse_resources(requests, field="spec.resources.requests"),
        taints=_taints(spec, "taints"),
        startup_taints=_taints(spec, "startupTaints"),
        kubelet=dict(mapping(spec.get("kubelet"), "spec.kubelet")),
        node_class=text(reference.get("name"), "spec.machineTemplateRef.name"),
        provider_id=text(status.get("providerID"), "status.providerID"),
        node_name=text(status.get("nodeName"), "status.nodeName"),
        capacity=parse_resources(status.get("capacity"), field="status.capacity"),
        allocatable=parse_resources(status.get("allocatable"), field="status.allocatable"),
        conditions=parse_conditions(status.get("conditions")),
        terminating=bool(meta.get("deletionTimestamp")),
        finalizers=tuple(meta.get("finalizers") or ()),
    )


def _taints(spec: Json, name: str) -> tuple[Taint, ...]:
    """A Machine may be written by hand, and its taints end up in a boot script (P-18)."""
    found = []
    for index, raw in enumerate(entries(spec.get(name), f"spec.{name}")):
        field = f"spec.{name}[{index}]"
        key, value, effect = (text(raw.get(n), f"{field}.{n}") for n in ("key", "value", "effect"))
        if not is_qualified_name(key) or not is_label_value(value) or not effect:
            raise InvalidObject("needs a key, an effect and perhaps a value", field=field)
        found.append(Taint(key, effect, value))
    return tuple(found)


def parse_conditions(raw: object) -> dict[str, Condition]:
    """Conditions by type. Raises InvalidObject."""
    field = "status.conditions"
    return {
        text(c.get("type"), f"{field}.type"): Condition(
            status=text(c.get("status"), f"{field}.status") or "Unknown",
            reason=text(c.get("reason"), f"{field}.reason"),
            message=text(c.get("message"), f"{field}.message"),
            since=_since(text(c.get("lastTransitionTime"), f"{field}.lastTransitionTime")),
        )
        for c in entries(raw, field)
    }


def _since(stamp: str) -> float:
    try:
        return parse_rfc3339(stamp) if stamp else 0.0
    except ValueError as error:
        raise InvalidObject(
            "must be a timestamp", field="status.conditions.lastTransitionTime"
        ) from error


def condition_objects(conditions: Mapping[str, Condition]) -> list[dict[str, str]]:
    """The inverse of ``parse_conditions``, sorted by type."""
    return [
        {
            "type": kind,
            "status": c.status,
            "reason": c.reason or kind,
            "message": c.message,
            "lastTransitionTime": rfc3339(c.since),
        }
        for kind, c in sorted(conditions.items())
    ]


def with_condition(
    conditions: Mapping[str, Condition], kind: str, new: Condition
) -> dict[str, Condition]:
    """``conditions`` plus ``new``; an unchanged status keeps its transition time."""
    old = conditions.get(kind)
    if old is not None and old.status == new.status:
        new = Condition(new.status, new.reason, new.message, old.since)
    return {**conditions, kind: new}


def with_readiness(
    conditions: Mapping[str, Condition], kind: str, new: Condition
) -> dict[str, Condition]:
    """``with_condition``, and Ready brought up to date: all three living conditions are True (M-03)."""
    after = with_condition(conditions, kind, new)
    late = [c for c in LIVING if c not in after or after[c].status != "True"]
    ready = (
        Condition("False", f"{late[0]}NotTrue", f"waiting for {late[0]}", new.since)
        if late
        else Condition("True", READY, "", new.since)
    )
    return with_condition(after, READY, ready)


def expression_objects(expressions: tuple[Expression, ...]) -> list[dict[str, object]]:
    """Requirements ready for an object."""
    return [
        {"key": e.key, "operator": e.operator, **({"values": list(e.values)} if e.values else {})}
        for e in expressions
    ]


def machine_object(planned: PlannedMachine, pool: NodePool, *, plan: str) -> dict[str, Any]:
    """The Machine to create for one planned machine. It is owned by its Provisioner (M-05)."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Machine",
        "metadata": {
            "name": planned.name,
            "labels": planned.labels,
            "annotations": {**pool.annotations, keys.PLAN_ANNOTATION: plan},
            "finalizers": [keys.FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "Provisioner",
                    "name": pool.name,
                    "uid": pool.uid,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "requirements": expression_objects(planned.requirements),
            "resources": {"requests": format_resources(planned.requests)},
            "taints": taint_objects(planned.taints),
            "startupTaints": taint_objects(planned.startup_taints),
            "kubelet": dict(pool.kubelet),
            "machineTemplateRef": {
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "name": planned.node_class,
            },
        },
    }
