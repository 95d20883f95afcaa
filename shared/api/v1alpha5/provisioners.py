"""karpenter.sh/v1alpha5 Provisioner <-> domain record (P-01..P-24, MAP-04).

The webhook defaults of v1alpha5 (P-19) are applied on reading, because there is no webhook. A pool with faults has no
record and is left out of scheduling; the faults become its condition. Inline AWS settings (T-13) become a separate
AWSNodeTemplate (``inline_template``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
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
from shared.api.crd.model import UNKNOWN_FIELDS, read
from shared.api.faults import Fault, Parsed
from shared.api.hashes import pool_hash
from shared.api.schema.kubelet import kubelet_settings
from shared.api.schema.pool_capacity import conflicts
from shared.api.schema.requirements import LARGEST_BOUND, expressions_of, requirement_objects
from shared.api.schema.taints import taints_of
from shared.api.schema.v1.node_pool import NODES
from shared.api.schema.v1alpha5.aws_node_template import AWSNodeTemplate
from shared.api.schema.v1alpha5.provisioner import Provisioner, ProvisionerSpec
from shared.api.v1.node_pools import amounts_of, usage_of
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.generations import V1ALPHA5
from shared.domain.pools.nodepools import (
    BALANCED,
    WHEN_EMPTY,
    WHEN_UNDERUTILIZED,
    NodePool,
)
from shared.domain.resources import format_resources

API_VERSION = Provisioner.INFO.api_version
TEMPLATE = AWSNodeTemplate.INFO
INLINE_SUFFIX = "-inline"
LONGEST_NAME = 253
IGNORED_PROVIDER_KEYS = frozenset({"apiVersion", "kind"})
"""Keys of inline settings in old files, which have no meaning (T-13)."""
Json = Mapping[str, Any]

_CATEGORY = keys.AWS_PREFIX + "instance-category"
_GENERATION = keys.AWS_PREFIX + "instance-generation"
_FAMILY_KEYS = frozenset(
    {keys.INSTANCE_TYPE, _CATEGORY, _GENERATION, keys.AWS_PREFIX + "instance-family"}
)
_SINGLE_DEFAULTS = (
    (keys.OS, "linux"),
    (keys.ARCH, "amd64"),
    (keys.CAPACITY_TYPE, keys.ON_DEMAND),
)


def parse_provisioner(raw: Json) -> Parsed[NodePool]:
    """The pool, or every fault of its spec. Never raises."""
    written = raw.get("spec")
    spec, faults = read(ProvisionerSpec, {} if written is None else written, at=("spec",))
    faults = [*faults, *name_faults(raw), *choice_faults(raw)]
    if spec is None or faults:
        return Parsed(None, tuple(faults))
    resources = spec.limits.resources if spec.limits else {}
    limits, too_large = amounts_of(resources, at=("spec", "limits", "resources"))
    if too_large:
        return Parsed(None, too_large)
    pool = _record(read_metadata(raw), spec, limits, usage_of(raw))
    impossible = conflicts(pool)
    return Parsed(None, impossible) if impossible else Parsed(pool)


def _record(
    meta: Metadata, spec: ProvisionerSpec, limits: dict[str, int], usage: dict[str, int]
) -> NodePool:
    labels = {keys.normalise(key): value for key, value in spec.labels.items()}
    policy, after = _consolidation(spec)
    expires = spec.ttl_seconds_until_expired
    pool = NodePool(
        uid=meta.uid,
        name=meta.name,
        generation_api=V1ALPHA5,
        generation=meta.generation,
        node_class=_node_class(meta.name, spec),
        requirements=with_defaults(expressions_of(spec.requirements), labels),
        labels=labels,
        annotations=dict(spec.annotations),
        taints=taints_of(spec.taints),
        startup_taints=taints_of(spec.startup_taints),
        kubelet=kubelet_settings(spec.kubelet_configuration),
        limits=limits,
        weight=spec.weight or 0,
        expire_seconds=None if expires is None else float(expires),
        consolidation_policy=policy,
        consolidate_after_seconds=after,
        terminating=meta.terminating,
        usage=usage,
        **meta.choices,
    )
    return msgspec.structs.replace(pool, hash=_hash(pool))


def _node_class(name: str, spec: ProvisionerSpec) -> str:
    return spec.provider_ref.name if spec.provider_ref else inline_template_name(name)


def _consolidation(spec: ProvisionerSpec) -> tuple[str, float | None]:
    """(consolidation policy, seconds) of MAP-04."""
    if spec.consolidation is not None and spec.consolidation.enabled:
        return WHEN_UNDERUTILIZED, 0.0
    after = spec.ttl_seconds_after_empty
    return WHEN_EMPTY, None if after is None else float(after)


def _hash(pool: NodePool) -> str:
    """The hash of the pool's fields that machines are created from; the node class has its own hash."""
    names = ("labels", "annotations", "taints", "startupTaints", "kubeletConfiguration")
    spec = _spec(pool)
    return pool_hash({name: spec[name] for name in names if name in spec})


def with_defaults(
    requirements: tuple[Expression, ...], labels: Mapping[str, str]
) -> tuple[Expression, ...]:
    """P-19: ``requirements``, and for missing keys linux, amd64, on-demand, and c/m/r above generation 2."""
    missing = _defaulted_keys(requirements, labels)
    added = [Expression(key, "In", (value,)) for key, value in _SINGLE_DEFAULTS if key in missing]
    if _CATEGORY in missing:
        added.append(Expression(_CATEGORY, "In", ("c", "m", "r")))
        added.append(Expression(_GENERATION, "Gt", ("2",)))
    return (*requirements, *added)


def _defaulted_keys(
    requirements: tuple[Expression, ...], labels: Mapping[str, str]
) -> tuple[str, ...]:
    """Keys that get a default; the category includes the generation."""
    constrained = {one.key for one in requirements} | set(labels)
    missing = [key for key, _ in _SINGLE_DEFAULTS if key not in constrained]
    return (*missing, *(() if constrained & _FAMILY_KEYS else (_CATEGORY,)))


def inline_template_name(provisioner: str) -> str:
    """Name of the AWSNodeTemplate for a Provisioner's ``spec.provider``: ``<provisioner>-inline``.

    In a name that would be too long, a hash replaces the end of the Provisioner's name.
    """
    whole = provisioner + INLINE_SUFFIX
    if len(whole) <= LONGEST_NAME:
        return whole
    digest = hashlib.sha256(provisioner.encode("utf-8", "replace")).hexdigest()[:8]
    kept = provisioner[: LONGEST_NAME - len(digest) - 1 - len(INLINE_SUFFIX)].rstrip("-.")
    return f"{kept}-{digest}{INLINE_SUFFIX}"


def inline_template(raw: Json) -> dict[str, Any] | None:
    """The AWSNodeTemplate for ``spec.provider`` of this Provisioner (T-13), owned by it.

    None without that field, or with a providerRef beside it, which is a fault. ``parse_provisioner`` finds faults of
    the template. Never raises.
    """
    spec = raw.get("spec")
    provider = spec.get("provider") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(provider, Mapping):
        return None
    if spec.get("providerRef") is not None:
        return None
    meta = read_metadata(raw)
    metadata: dict[str, Any] = {
        "name": inline_template_name(meta.name),
        "annotations": {keys.INLINE_ANNOTATION: meta.name},
    }
    if meta.uid:
        metadata["ownerReferences"] = [_owner(meta)]
    return {
        "apiVersion": TEMPLATE.api_version,
        "kind": TEMPLATE.kind,
        "metadata": metadata,
        "spec": {
            name: value for name, value in provider.items() if name not in IGNORED_PROVIDER_KEYS
        },
    }


def _owner(meta: Metadata) -> dict[str, Any]:
    """The owner reference, by which Kubernetes deletes the template after its Provisioner."""
    return {
        "apiVersion": API_VERSION,
        "kind": Provisioner.INFO.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def provisioner_object(pool: NodePool) -> Written:
    """The Provisioner of a record of either generation, without status. Notes name what it lacks.

    A key that the record does not constrain and v1alpha5 would default (P-19) is written as ``Exists``, with a note.
    """
    spec = _spec(pool)
    document = {
        "apiVersion": API_VERSION,
        "kind": Provisioner.INFO.kind,
        "metadata": pool_metadata(pool),
        "spec": spec,
    }
    _, refused = read(ProvisionerSpec, spec, at=("spec",), context=UNKNOWN_FIELDS)
    return Written(document, (*_notes(pool), *refused))


def _spec(pool: NodePool) -> dict[str, Any]:
    opened = [Expression(key, "Exists") for key in _defaulted_keys(pool.requirements, pool.labels)]
    requirements = [*map(_expressible, pool.requirements), *opened]
    limits = {name: amount for name, amount in pool.limits.items() if name != NODES}
    optional: dict[str, Any] = {
        "annotations": dict(pool.annotations),
        "labels": dict(pool.labels),
        "taints": taint_objects(pool.taints),
        "startupTaints": taint_objects(pool.startup_taints),
        "kubeletConfiguration": dict(pool.kubelet),
        "limits": {"resources": format_resources(limits)} if limits else {},
        "weight": pool.weight,
    }
    return {
        "providerRef": {
            "apiVersion": TEMPLATE.api_version,
            "kind": TEMPLATE.kind,
            "name": pool.node_class,
        },
        "requirements": requirement_objects(requirements),
        **{name: value for name, value in optional.items() if value},
        **_lifetime(pool),
    }


def _lifetime(pool: NodePool) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if pool.expire_seconds is not None:
        written["ttlSecondsUntilExpired"] = int(pool.expire_seconds)
    if pool.consolidate_after_seconds is None:
        return written
    if pool.consolidation_policy == WHEN_EMPTY:
        return {**written, "ttlSecondsAfterEmpty": int(pool.consolidate_after_seconds)}
    return {**written, "consolidation": {"enabled": True}}


def _expressible(one: Expression) -> Expression:
    """The expression with the operators of v1alpha5, which lacks Gte and Lte."""
    operator, values = one.operator, one.values
    if operator == "Gte":
        bound = int(values[0])
        operator, values = ("Gt", (str(bound - 1),)) if bound else ("Exists", ())
    elif operator == "Lte":
        operator, values = "Lt", (str(min(int(values[0]) + 1, LARGEST_BOUND)),)
    return Expression(one.key, operator, values)


def _notes(pool: NodePool) -> Iterator[Fault]:
    yield from _requirement_notes(pool)
    yield from _disruption_notes(pool)
    if pool.replicas is not None:
        yield Fault(("spec", "replicas"), "v1alpha5 has no static pools; left out")
    if NODES in pool.limits:
        yield Fault(("spec", "limits", NODES), "v1alpha5 does not limit nodes; left out")


def _requirement_notes(pool: NodePool) -> Iterator[Fault]:
    for index, one in enumerate(pool.requirements):
        at = ("spec", "requirements", index)
        written = _expressible(one)
        if written.operator != one.operator:
            shown = " ".join((written.operator, *written.values))
            yield Fault((*at, "operator"), f"v1alpha5 has no {one.operator}; written as {shown}")
        if one.min_values is not None:
            yield Fault((*at, "minValues"), "v1alpha5 has no minValues; left out")
    for key in _defaulted_keys(pool.requirements, pool.labels):
        yield Fault(
            ("spec", "requirements"),
            f"v1alpha5 would restrict {key} by default; written as Exists to keep it open",
        )


def _disruption_notes(pool: NodePool) -> Iterator[Fault]:
    policy, after = pool.consolidation_policy, pool.consolidate_after_seconds
    at = ("spec", "disruption")
    if policy == BALANCED and after is not None:
        yield Fault(
            (*at, "consolidationPolicy"),
            "v1alpha5 has no Balanced; any saving is enough to consolidate",
        )
    if policy != WHEN_EMPTY and after is None:
        yield Fault((*at, "consolidateAfter"), "Never: written without consolidation")
    if policy != WHEN_EMPTY and after:
        yield Fault((*at, "consolidateAfter"), "v1alpha5 consolidates without waiting; left out")
    if pool.budgets:
        yield Fault((*at, "budgets"), "v1alpha5 has no budgets; left out")
    if pool.termination_grace_seconds is not None:
        yield Fault(
            ("spec", "terminationGracePeriod"),
            "v1alpha5 does not limit the time of a drain; left out",
        )
    if pool.expire_seconds is not None and pool.generation_api != V1ALPHA5:
        yield Fault(
            ("spec", "expireAfter"),
            "v1alpha5 starts the replacement before it removes an expired machine",
        )
