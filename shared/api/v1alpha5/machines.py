"""karpenter.sh/v1alpha5 Machine <-> domain record (M-01..07), and the parts that a v1 NodeClaim shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.conditions import READY, condition_objects, parse_conditions, with_condition
from shared.api.core.expressions import parse_expressions
from shared.api.core.nodes import parse_taints, taint_objects
from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.api.schema.requirements import requirement_objects
from shared.api.shapes import mapping, text
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import (
    DRIFTED,
    EMPTY,
    EXPIRED,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Condition,
    Machine,
)
from shared.domain.pools.generations import V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.resources import format_resources, parse_resources
from shared.solver.plan import PlannedMachine

API_VERSION = "karpenter.sh/v1alpha5"
OPERATORS = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"})
Json = Mapping[str, Any]
READINESS_CONDITIONS = (LAUNCHED, REGISTERED, INITIALIZED)
"""M-03, NC-03: a machine is ready when these are True."""
_PREFIX = "Machine"
_PREFIXED = frozenset({*READINESS_CONDITIONS, EMPTY, DRIFTED, EXPIRED})


def parse_machine(raw: Json) -> Machine:
    """The record of a stored Machine. Raises InvalidObject naming the field."""
    spec = mapping(raw.get("spec"), "spec")
    reference = mapping(spec.get("machineTemplateRef"), "spec.machineTemplateRef")
    return Machine(
        **fields_of(raw),
        pool=(raw["metadata"].get("labels") or {}).get(keys.PROVISIONER_NAME, ""),
        generation_api=V1ALPHA5,
        kubelet=dict(mapping(spec.get("kubelet"), "spec.kubelet")),
        node_class=text(reference.get("name"), "spec.machineTemplateRef.name"),
        conditions={domain_condition(k): c for k, c in conditions_of(raw).items()},
    )


def fields_of(raw: Json) -> dict[str, Any]:
    """The fields that Machine and NodeClaim have in common. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    requests = mapping(spec.get("resources"), "spec.resources").get("requests")
    return {
        "uid": meta["uid"],
        "name": meta["name"],
        "created_at": parse_rfc3339(meta["creationTimestamp"]),
        "labels": meta.get("labels") or {},
        "annotations": meta.get("annotations") or {},
        "requirements": parse_expressions(
            spec.get("requirements"), field="spec.requirements", operators=OPERATORS
        ),
        "requests": parse_resources(requests, field="spec.resources.requests"),
        # Checked strictly, because machines may be written by hand and taints become part of user data (P-18).
        "taints": parse_taints(spec, "taints", strict=True),
        "startup_taints": parse_taints(spec, "startupTaints", strict=True),
        "provider_id": text(status.get("providerID"), "status.providerID"),
        "node_name": text(status.get("nodeName"), "status.nodeName"),
        "capacity": parse_resources(status.get("capacity"), field="status.capacity"),
        "allocatable": parse_resources(status.get("allocatable"), field="status.allocatable"),
        "terminating": bool(meta.get("deletionTimestamp")),
        "deleted_at": parse_rfc3339(meta["deletionTimestamp"])
        if meta.get("deletionTimestamp")
        else 0.0,
        "terminate_at": _terminate_at(meta),
        "finalizers": tuple(meta.get("finalizers") or ()),
    }


def _terminate_at(meta: Json) -> float | None:
    """The termination timestamp (TRM-10); None when the annotation is missing or invalid, so it has no effect."""
    written = (meta.get("annotations") or {}).get(keys.TERMINATION_TIMESTAMP)
    try:
        return parse_rfc3339(str(written)) if written else None
    except ValueError:
        return None


def conditions_of(raw: Json) -> dict[str, Condition]:
    """The conditions by type, as stored. Raises InvalidObject."""
    return parse_conditions(mapping(raw.get("status"), "status").get("conditions"))


def domain_condition(kind: str) -> str:
    """``MachineLaunched`` -> ``Launched``; other types keep their name."""
    bare = kind.removeprefix(_PREFIX)
    return bare if bare in _PREFIXED else kind


def stored_condition(kind: str, generation_api: str) -> str:
    """The inverse of ``domain_condition``, for a machine of this generation."""
    return f"{_PREFIX}{kind}" if generation_api == V1ALPHA5 and kind in _PREFIXED else kind


def machine_conditions(
    conditions: Mapping[str, Condition], generation_api: str
) -> list[dict[str, Any]]:
    """The domain's conditions as API objects."""
    stored = {stored_condition(k, generation_api): c for k, c in conditions.items()}
    return condition_objects(stored)


def with_readiness(
    conditions: Mapping[str, Condition], kind: str, new: Condition
) -> dict[str, Condition]:
    """``with_condition``, with Ready updated: True when all READINESS_CONDITIONS are True (M-03)."""
    after = with_condition(conditions, kind, new)
    late = [c for c in READINESS_CONDITIONS if c not in after or after[c].status != "True"]
    ready = (
        Condition("False", f"{late[0]}NotTrue", f"waiting for {late[0]}", new.since)
        if late
        else Condition("True", READY, "", new.since)
    )
    return with_condition(after, READY, ready)


def machine_object(
    planned: PlannedMachine, pool: NodePool, node_class: NodeClass, *, plan: str, epoch: int = 0
) -> dict[str, Any]:
    """The Machine to create for one planned machine. It is owned by its Provisioner (M-05)."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Machine",
        "metadata": planned_metadata(
            planned, pool, node_class, plan=plan, owner_api=API_VERSION, epoch=epoch
        ),
        "spec": {
            **planned_spec(planned),
            "kubelet": dict(pool.kubelet),
            "machineTemplateRef": {
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "name": planned.node_class,
            },
        },
    }


def planned_metadata(
    planned: PlannedMachine,
    pool: NodePool,
    node_class: NodeClass,
    *,
    plan: str,
    owner_api: str,
    epoch: int,
) -> dict[str, Any]:
    """M-05, NC-05..07: owner, finalizer, labels, and the hashes for the detection of drift."""
    return {
        "name": planned.name,
        "labels": planned.labels,
        "annotations": {
            **pool.annotations,
            **pool_hash_annotations(pool.kind, pool.hash),
            **class_hash_annotations(node_class.kind, node_class.hash),
            keys.PLAN_ANNOTATION: plan,
            **({keys.EPOCH_ANNOTATION: str(epoch)} if epoch else {}),
        },
        "finalizers": [keys.FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": owner_api,
                "kind": pool.kind,
                "name": pool.name,
                "uid": pool.uid,
                "blockOwnerDeletion": True,
            }
        ],
    }


def planned_spec(planned: PlannedMachine) -> dict[str, Any]:
    """The part of the spec that Machine and NodeClaim have in common."""
    return {
        "requirements": requirement_objects(planned.requirements),
        "resources": {"requests": format_resources(planned.requests)},
        "taints": taint_objects(planned.taints),
        "startupTaints": taint_objects(planned.startup_taints),
    }
