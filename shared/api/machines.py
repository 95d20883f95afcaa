"""karpenter.sh/v1alpha5 Machine <-> domain record (M-01..07)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.nodes import parse_taints, taint_objects
from shared.api.pods import parse_expressions
from shared.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.machines import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodepools import NodePool
from shared.domain.resources import format_resources, parse_resources
from shared.solver.plan import PlannedMachine

API_VERSION = "karpenter.sh/v1alpha5"
OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})
Json = Mapping[str, Any]
READY = "Ready"
LIVING = (LAUNCHED, REGISTERED, INITIALIZED)
"""M-03: a Machine is ready when these are True."""


def parse_machine(raw: Json) -> Machine:
    """The record of a stored Machine. Raises InvalidObject naming the field."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
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
        requests=parse_resources(
            (spec.get("resources") or {}).get("requests"), field="spec.resources.requests"
        ),
        taints=parse_taints(spec.get("taints")),
        startup_taints=parse_taints(spec.get("startupTaints")),
        kubelet=spec.get("kubelet") or {},
        node_class=(spec.get("machineTemplateRef") or {}).get("name") or "",
        provider_id=status.get("providerID") or "",
        node_name=status.get("nodeName") or "",
        capacity=parse_resources(status.get("capacity"), field="status.capacity"),
        allocatable=parse_resources(status.get("allocatable"), field="status.allocatable"),
        conditions=parse_conditions(status.get("conditions")),
        terminating=bool(meta.get("deletionTimestamp")),
        finalizers=tuple(meta.get("finalizers") or ()),
    )


def parse_conditions(raw: object) -> dict[str, Condition]:
    """Conditions by type."""
    return {
        c["type"]: Condition(
            status=c.get("status") or "Unknown",
            reason=c.get("reason") or "",
            message=c.get("message") or "",
            since=parse_rfc3339(c["lastTransitionTime"]) if c.get("lastTransitionTime") else 0.0,
        )
        for c in (raw if isinstance(raw, list) else [])
    }


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
