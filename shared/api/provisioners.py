"""karpenter.sh/v1alpha5 Provisioner -> NodePool, strictly (P-01..P-24).

The webhook defaults of v1alpha5 (P-19) are applied here, when read: there is no webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from shared.api.faults import Faults
from shared.api.label_syntax import is_label_value, is_qualified_name
from shared.api.nodes import parse_taints
from shared.api.pods import parse_expression, parse_expressions
from shared.api.shapes import entries, mapping, text, texts
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.nodepools import NodePool
from shared.domain.resources import parse_resources
from shared.errors import InvalidObject

API_VERSION = "karpenter.sh/v1alpha5"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
Json = Mapping[str, Any]

_RESTRICTED_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws")
_ALLOWED_DOMAINS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
_RESTRICTED_LABELS = frozenset({keys.HOSTNAME, "karpenter.sh/emptiness-timestamp"})
_FAMILY_KEYS = frozenset(
    {keys.INSTANCE_TYPE}
    | {keys.AWS_PREFIX + n for n in ("instance-family", "instance-category", "instance-generation")}
)


def parse_provisioner(raw: Json) -> tuple[NodePool, list[str]]:
    """The pool and every fault found. With faults the pool must not be used."""
    meta, faults = raw["metadata"], Faults()
    spec = _mapping(raw, "spec", "spec", faults)
    status = _mapping(raw, "status", "status", faults)
    labels = _labels(spec, faults)
    requirements = _requirements(spec, faults)
    taints = _taints(spec, "taints", faults)
    startup = _taints(spec, "startupTaints", faults)
    _check_unique(taints, startup, faults)
    pool = NodePool(
        uid=meta["uid"],
        name=meta["name"],
        generation=meta.get("generation") or 0,
        node_class=_provider_ref(spec, faults),
        requirements=with_defaults(requirements, labels),
        labels=labels,
        annotations=faults.attempt(lambda: texts(spec.get("annotations"), "spec.annotations"), {}),
        taints=parse_taints(taints),
        startup_taints=parse_taints(startup),
        kubelet=dict(_mapping(spec, "kubeletConfiguration", "spec.kubeletConfiguration", faults)),
        limits=faults.attempt(lambda: _limits(spec), {}),
        weight=_whole(spec, "weight", 0, 100, faults) or 0,
        empty_ttl_seconds=_whole(spec, "ttlSecondsAfterEmpty", 0, 2**31, faults),
        expire_seconds=_whole(spec, "ttlSecondsUntilExpired", 0, 2**31, faults),
        consolidation=_consolidates(spec, faults),
        terminating=bool(meta.get("deletionTimestamp")),
        usage=faults.attempt(
            lambda: parse_resources(status.get("resources"), field="status.resources"), {}
        ),
    )
    return pool, faults.found


def with_defaults(
    requirements: tuple[Expression, ...], labels: Mapping[str, str]
) -> tuple[Expression, ...]:
    """P-19: linux, amd64, on-demand and c/m/r above generation 2, each only where nothing is said."""
    said = {r.key for r in requirements} | set(labels)
    added = [
        Expression(key, "In", (value,))
        for key, value in (
            (keys.OS, "linux"),
            (keys.ARCH, "amd64"),
            (keys.CAPACITY_TYPE, keys.ON_DEMAND),
        )
        if key not in said
    ]
    if not said & _FAMILY_KEYS:
        added.append(Expression(keys.AWS_PREFIX + "instance-category", "In", ("c", "m", "r")))
        added.append(Expression(keys.AWS_PREFIX + "instance-generation", "Gt", ("2",)))
    return (*requirements, *added)


def _labels(spec: Json, faults: Faults) -> dict[str, str]:
    nothing: dict[str, str] = {}
    said = faults.attempt(lambda: texts(spec.get("labels"), "spec.labels"), nothing)
    labels = {keys.normalise(key): value for key, value in said.items()}
    for key, value in labels.items():
        _check_key(key, f"spec.labels[{key}]", faults)
        if not is_label_value(value):
            faults.note(f"spec.labels[{key}]", f"{value[:63]!r} is not a label value")
    return labels


def _check_key(key: str, field: str, faults: Faults) -> None:
    """P-15, P-17: a qualified name outside the domains that Kubernetes and Karpenter keep."""
    if not is_qualified_name(key):
        faults.note(field, f"{key[:80]!r} is not a qualified name such as example.com/team")
    elif key == keys.PROVISIONER_NAME or key in _RESTRICTED_LABELS:
        faults.note(field, f"{key} is set by the autoscaler and may not be used here")
    elif key not in keys.WELL_KNOWN and _is_restricted(key):
        faults.note(field, f"{key} is in a restricted domain; use a domain of your own")


def _is_restricted(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if any(domain == d or domain.endswith("." + d) for d in _ALLOWED_DOMAINS):
        return False
    return any(domain == d or domain.endswith("." + d) for d in _RESTRICTED_DOMAINS)


def _mapping(raw: Json, name: str, field: str, faults: Faults) -> Json:
    nothing: Json = {}
    return faults.attempt(lambda: mapping(raw.get(name), field), nothing)


def _requirements(spec: Json, faults: Faults) -> tuple[Expression, ...]:
    """P-16. Each entry by itself, so that every fault is told at once."""
    found: list[Expression] = []
    listed = spec.get("requirements")
    if not isinstance(listed, list):
        nothing: tuple[Expression, ...] = ()
        return faults.attempt(lambda: parse_expressions(listed, field="spec.requirements"), nothing)
    for index, entry in enumerate(listed):
        field = f"spec.requirements[{index}]"
        read = partial(parse_expression, entry, field)
        expression = faults.attempt(read, None)
        if expression is not None:
            _check_key(expression.key, f"{field}.key", faults)
            found.append(expression)
    return tuple(found)


def _taints(spec: Json, name: str, faults: Faults) -> list[dict[str, str]]:
    nothing: list[Json] = []
    listed = faults.attempt(lambda: entries(spec.get(name), f"spec.{name}"), nothing)
    checked = [_taint(taint, f"spec.{name}[{i}]", faults) for i, taint in enumerate(listed)]
    return [taint for taint in checked if taint]


def _taint(raw: Json, field: str, faults: Faults) -> dict[str, str] | None:
    """P-18: a taint that may be used, or None with its fault noted."""
    try:
        key, value, effect = (text(raw.get(n), f"{field}.{n}") for n in ("key", "value", "effect"))
    except InvalidObject as error:
        faults.found.append(str(error))
        return None
    if not key:
        faults.note(
            f"{field}.key", "a taint needs a key, an effect and perhaps a value in one item"
        )
    elif effect not in EFFECTS:
        faults.note(f"{field}.effect", f"must be one of {', '.join(EFFECTS)}")
    elif not is_qualified_name(key):
        faults.note(f"{field}.key", f"{key[:80]!r} is not a qualified name")
    elif not is_label_value(value):
        faults.note(f"{field}.value", f"{value[:63]!r} is not a label value")
    else:
        return {"key": key, "value": value, "effect": effect}
    return None


def _check_unique(
    taints: list[dict[str, str]], startup: list[dict[str, str]], faults: Faults
) -> None:
    """P-18: one taint per key and effect."""
    seen: set[tuple[str, str]] = set()
    for taint in [*taints, *startup]:
        pair = (taint["key"], taint["effect"])
        if pair in seen:
            faults.note("spec.taints", f"{pair[0]}:{pair[1]} is there twice")
        seen.add(pair)


def _consolidates(spec: Json, faults: Faults) -> bool:
    """P-12: consolidation and the emptiness TTL exclude each other."""
    enabled = bool(_mapping(spec, "consolidation", "spec.consolidation", faults).get("enabled"))
    if enabled and spec.get("ttlSecondsAfterEmpty") is not None:
        faults.note(
            "spec.consolidation", "cannot be enabled together with ttlSecondsAfterEmpty; remove one"
        )
    return enabled


def _provider_ref(spec: Json, faults: Faults) -> str:
    """P-07: settings for AWS come from exactly one place."""
    reference = _mapping(spec, "providerRef", "spec.providerRef", faults)
    name = faults.attempt(lambda: text(reference.get("name"), "spec.providerRef.name"), "")
    inline = spec.get("provider")
    if inline and reference:
        faults.note("spec.provider", "give either provider or providerRef, not both")
    elif inline:
        faults.note(
            "spec.provider", "move these settings to an AWSNodeTemplate and name it in providerRef"
        )
    elif not name:
        faults.note(
            "spec.providerRef.name", "name the AWSNodeTemplate that says how to build nodes"
        )
    return name


def _limits(spec: Json) -> dict[str, int]:
    raw = mapping(spec.get("limits"), "spec.limits")
    return parse_resources(raw.get("resources"), field="spec.limits.resources")


def _whole(spec: Json, name: str, least: int, most: int, faults: Faults) -> int | None:
    value = spec.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        faults.note(f"spec.{name}", f"must be a whole number from {least} to {most}")
        return None
    return value
