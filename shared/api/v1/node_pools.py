"""karpenter.sh/v1 NodePool <-> domain record (NP-01..NP-24, MAP-04).

A pool with faults has no record and is left out of scheduling (NP-21); the faults become its conditions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.api.conversion.written import Written
from shared.api.core.metadata import (
    Metadata,
    choice_faults,
    name_faults,
    pool_metadata,
    read_metadata,
)
from shared.api.core.nodes import taint_objects
from shared.api.crd.model import read
from shared.api.faults import Fault, Parsed, Path
from shared.api.hashes import pool_hash
from shared.api.label_rules import value_warnings
from shared.api.schema.pool_capacity import conflicts
from shared.api.schema.requirements import expressions_of, requirement_objects
from shared.api.schema.scalars import duration_seconds, duration_text
from shared.api.schema.taints import taints_of
from shared.api.schema.v1.node_pool import Disruption, DisruptionBudget, NodePoolSpec
from shared.api.shapes import below
from shared.domain import labels as keys
from shared.domain.pools.generations import CLASS_GROUP, GENERATIONS, V1, V1ALPHA5
from shared.domain.pools.nodepools import LEAST_LIFE_SECONDS, Budget, NodePool
from shared.domain.resources import format_resources, parse_amount, parse_resources
from shared.errors import InvalidObject

Json = Mapping[str, Any]
API_VERSION = "karpenter.sh/v1"
CLASS_KIND = GENERATIONS[V1].class_kind
CLASS_NAME = ("spec", "template", "spec", "nodeClassRef", "name")


def parse_node_pool(raw: Json) -> Parsed[NodePool]:
    """The pool, or every fault of its spec. Never raises."""
    spec, faults = read(NodePoolSpec, raw.get("spec"), at=("spec",))
    faults = [*faults, *_unsupported_class(raw), *_long_names(raw), *choice_faults(raw)]
    if spec is None or faults:
        return Parsed(None, tuple(faults))
    limits, too_large = amounts_of(spec.limits, at=("spec", "limits"))
    if too_large:
        return Parsed(None, too_large)
    pool = _record(read_metadata(raw), spec, limits, usage_of(raw))
    impossible = conflicts(pool)
    return Parsed(None, impossible) if impossible else Parsed(pool)


def warnings_of(raw: Json) -> list[Fault]:
    """NP-18: warnings about values that no offering has, and about an age that no node reaches."""
    at: Path = ("spec", "template")
    found = value_warnings(raw, (*at, "metadata", "labels"), (*at, "spec", "requirements"))
    pool = parse_node_pool(raw).record
    if pool is not None and pool.lives_too_short:
        text = (
            f"is less than the {LEAST_LIFE_SECONDS:.0f} s that a node needs to become ready: machines are bought and "
            "deleted without end; Never switches expiry off"
        )
        found.append(Fault((*at, "spec", "expireAfter"), text))
    return found


def _unsupported_class(raw: Json) -> list[Fault]:
    """NP-23: faults of a reference to a node class of another cloud. The schema reports missing fields."""
    template = below(below(below(raw, "spec"), "template"), "spec")
    reference = below(template, "nodeClassRef")
    path = ("spec", "template", "spec", "nodeClassRef")
    return [
        Fault((*path, name), f"{str(reference[name])[:80]!r} is not supported; use {only}")
        for name, only in (("group", CLASS_GROUP), ("kind", CLASS_KIND))
        if isinstance(reference.get(name), str) and reference[name] != only
    ]


def _long_names(raw: Json) -> list[Fault]:
    """NP-21: a pool or class whose name no label can hold has no machines."""
    return [*name_faults(raw), *name_faults(raw, CLASS_NAME)]


def amounts_of(written: Json, *, at: Path) -> tuple[dict[str, int], tuple[Fault, ...]]:
    """A valid ResourceList in the units of ``domain.resources``, and faults of amounts that are too large."""
    amounts, faults = {}, []
    for name, value in written.items():
        try:
            amounts[name] = parse_amount(name, value, field="")
        except InvalidObject as error:
            faults.append(Fault((*at, name), error.fault))
    return amounts, tuple(faults)


def usage_of(raw: Json) -> dict[str, int]:
    """NP-24: ``status.resources``. Only controllers write it, so invalid content counts as absent."""
    try:
        return parse_resources(below(raw, "status").get("resources"), field="status.resources")
    except InvalidObject:
        return {}


def _record(
    meta: Metadata, spec: NodePoolSpec, limits: dict[str, int], usage: dict[str, int]
) -> NodePool:
    template, wanted = spec.template, spec.template.spec
    labels = {keys.normalise(key): value for key, value in template.metadata.labels.items()}
    pool = NodePool(
        uid=meta.uid,
        name=meta.name,
        generation_api=V1,
        generation=meta.generation,
        node_class=wanted.node_class_ref.name,
        requirements=expressions_of(wanted.requirements),
        labels=labels,
        annotations=dict(template.metadata.annotations),
        taints=taints_of(wanted.taints),
        startup_taints=taints_of(wanted.startup_taints),
        limits=limits,
        weight=spec.weight or 0,
        expire_seconds=duration_seconds(wanted.expire_after),
        consolidation_policy=spec.disruption.consolidation_policy,
        consolidate_after_seconds=duration_seconds(spec.disruption.consolidate_after),
        budgets=_budgets(spec.disruption),
        termination_grace_seconds=duration_seconds(wanted.termination_grace_period),
        replicas=spec.replicas,
        terminating=meta.terminating,
        usage=usage,
        **meta.choices,
    )
    return _with_hash(pool)


def _with_hash(pool: NodePool) -> NodePool:
    """NP-19: the hash is of the template as we write it, so that an equivalent notation is not drift."""
    template = _template(pool)
    del template["spec"]["requirements"]
    return msgspec.structs.replace(pool, hash=pool_hash(template))


def _budgets(disruption: Disruption) -> tuple[Budget, ...]:
    return tuple(_budget(one) for one in disruption.budgets)


def _budget(written: DisruptionBudget) -> Budget:
    return Budget(
        nodes=written.nodes,
        reasons=tuple(written.reasons),
        schedule=written.schedule or "",
        duration_seconds=duration_seconds(written.duration),
    )


def node_pool_object(pool: NodePool) -> Written:
    """The NodePool of a record of either generation (MAP-04), without status. Notes name what it lacks."""
    spec: dict[str, Any] = {"template": _template(pool), "disruption": _disruption(pool)}
    if pool.limits:
        spec["limits"] = format_resources(pool.limits)
    if pool.weight:
        spec["weight"] = pool.weight
    if pool.replicas is not None:
        spec["replicas"] = pool.replicas
    document = {
        "apiVersion": API_VERSION,
        "kind": "NodePool",
        "metadata": pool_metadata(pool),
        "spec": spec,
    }
    return Written(document, _notes(pool))


def _template(pool: NodePool) -> dict[str, Any]:
    metadata = {
        name: dict(entries)
        for name, entries in (("labels", pool.labels), ("annotations", pool.annotations))
        if entries
    }
    spec: dict[str, Any] = {
        "requirements": requirement_objects(pool.requirements),
        "nodeClassRef": {"group": CLASS_GROUP, "kind": CLASS_KIND, "name": pool.node_class},
        "expireAfter": duration_text(pool.expire_seconds),
    }
    for name, taints in (("taints", pool.taints), ("startupTaints", pool.startup_taints)):
        if taints:
            spec[name] = taint_objects(taints)
    if pool.termination_grace_seconds is not None:
        spec["terminationGracePeriod"] = duration_text(pool.termination_grace_seconds)
    return {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}


def _disruption(pool: NodePool) -> dict[str, Any]:
    """v1alpha5 has no budgets. Without one in the document, v1's default of 10 % would apply and limit disruption."""
    budgets = [_budget_object(budget) for budget in pool.budgets]
    if pool.generation_api == V1ALPHA5:
        budgets = budgets or [{"nodes": "100%"}]
    return {
        "consolidationPolicy": pool.consolidation_policy,
        "consolidateAfter": duration_text(pool.consolidate_after_seconds),
        "budgets": budgets,
    }


def _budget_object(budget: Budget) -> dict[str, Any]:
    written: dict[str, Any] = {"nodes": budget.nodes}
    if budget.reasons:
        written["reasons"] = list(budget.reasons)
    if budget.schedule:
        written["schedule"] = budget.schedule
    if budget.duration_seconds is not None:
        written["duration"] = f"{math.ceil(budget.duration_seconds / 60)}m"
    return written


def _notes(pool: NodePool) -> tuple[Fault, ...]:
    notes = []
    if pool.kubelet:
        message = "belongs to EC2NodeClass.spec.kubelet in v1; move it there"
        notes.append(Fault(("spec", "kubeletConfiguration"), message))
    if pool.generation_api == V1ALPHA5 and pool.expire_seconds is not None:
        message = "v1 removes an expired machine without starting its replacement first"
        notes.append(Fault(("spec", "ttlSecondsUntilExpired"), message))
    return tuple(notes)
