"""karpenter.sh/v1 NodeClaim <-> domain record (NC-01..10)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.api.schema.scalars import (
    DURATION_OR_NEVER_PATTERN,
    duration_seconds,
    duration_text,
)
from shared.api.shapes import TIMESTAMP_EXAMPLE, mapping, text
from shared.api.v1alpha5 import machines
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import CLASS_GROUP, GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.errors import InvalidObject
from shared.solver.plan import PlannedMachine

API_VERSION = "karpenter.sh/v1"
Json = Mapping[str, Any]


def parse_node_claim(raw: Json) -> Machine:
    """The record of a stored NodeClaim. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    reference = mapping(spec.get("nodeClassRef"), "spec.nodeClassRef")
    return Machine(
        **machines.fields_of(raw),
        pool=(meta.get("labels") or {}).get(keys.NODE_POOL, ""),
        generation_api=V1,
        node_class=text(reference.get("name"), "spec.nodeClassRef.name"),
        expire_seconds=_duration(spec, "expireAfter"),
        termination_grace_seconds=_duration(spec, "terminationGracePeriod"),
        image_id=text(status.get("imageID"), "status.imageID"),
        last_pod_event_at=_time(status, "lastPodEventTime"),
        conditions=machines.conditions_of(raw),
    )


def _duration(spec: Json, name: str) -> float | None:
    written = text(spec.get(name), f"spec.{name}")
    if written and not re.fullmatch(DURATION_OR_NEVER_PATTERN, written):
        raise InvalidObject("must be a duration such as 720h, or Never", field=f"spec.{name}")
    return duration_seconds(written or None)


def _time(status: Json, name: str) -> float:
    written = text(status.get(name), f"status.{name}")
    try:
        return parse_rfc3339(written) if written else 0.0
    except ValueError as error:
        fault = f"must be a timestamp {TIMESTAMP_EXAMPLE}"
        raise InvalidObject(fault, field=f"status.{name}") from error


def node_claim_object(
    planned: PlannedMachine, pool: NodePool, node_class: NodeClass, *, plan: str, epoch: int = 0
) -> dict[str, Any]:
    """The NodeClaim to create for one planned machine (NC-05..09)."""
    metadata = machines.planned_metadata(
        planned, pool, node_class, plan=plan, owner_api=API_VERSION, epoch=epoch
    )
    metadata["annotations"][keys.MIN_VALUES_RELAXED] = str(planned.min_values_relaxed).lower()
    grace = pool.termination_grace_seconds
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeClaim",
        "metadata": metadata,
        "spec": {
            **machines.planned_spec(planned),
            "nodeClassRef": {
                "group": CLASS_GROUP,
                "kind": GENERATIONS[V1].class_kind,
                "name": planned.node_class,
            },
            "expireAfter": duration_text(pool.expire_seconds),
            **({} if grace is None else {"terminationGracePeriod": duration_text(grace)}),
        },
    }


def planned_object(
    planned: PlannedMachine, pool: NodePool, node_class: NodeClass, *, plan: str, epoch: int = 0
) -> dict[str, Any]:
    """The Machine or NodeClaim to create, in the generation of its pool (MAP-01)."""
    make = machines.machine_object if pool.generation_api == V1ALPHA5 else node_claim_object
    return make(planned, pool, node_class, plan=plan, epoch=epoch)
