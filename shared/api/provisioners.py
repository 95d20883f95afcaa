"""karpenter.sh/v1alpha5 Provisioner -> NodePool, strictly (P-01..P-24).

The webhook defaults of v1alpha5 (P-19) are applied here, when read: there is no webhook.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from shared.api.faults import Faults
from shared.api.nodes import parse_taints
from shared.api.pods import parse_expressions
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.nodepools import NodePool
from shared.domain.resources import parse_resources
from shared.errors import InvalidObject

API_VERSION = "karpenter.sh/v1alpha5"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
Json = Mapping[str, Any]

_QUALIFIED_NAME = re.compile(
    r"^(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_LABEL_VALUE = re.compile(r"^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_RESTRICTED_DOMAINS = ("kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws")
_ALLOWED_DOMAINS = ("kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io")
_RESTRICTED_LABELS = frozenset({keys.HOSTNAME, "karpenter.sh/emptiness-timestamp"})
_FAMILY_KEYS = frozenset(
    {keys.INSTANCE_TYPE}
    | {keys.AWS_PREFIX + n for n in ("instance-family", "instance-category", "instance-generation")}
)


def parse_provisioner(raw: Json) -> tuple[NodePool, list[str]]:
    """The pool and every fault found. With faults the pool must not be used."""
    meta, spec, faults = raw["metadata"], raw.get("spec") or {}, Faults()
    labels = _labels(spec, faults)
    nothing: tuple[Expression, ...] = ()
    requirements = faults.attempt(
        lambda: parse_expressions(spec.get("requirements"), field="spec.requirements"), nothing
    )
    for index, requirement in enumerate(requirements):
        _check_key(requirement.key, f"spec.requirements[{index}].key", faults)
    taints = _taints(spec, "taints", faults)
    startup = _taints(spec, "startupTaints", faults)
    _check_unique(taints, startup, faults)
    _check_lifetime(spec, faults)
    pool = NodePool(
        uid=meta["uid"],
        name=meta["name"],
        generation=meta.get("generation") or 0,
        node_class=_provider_ref(spec, faults),
        requirements=with_defaults(requirements, labels),
        labels=labels,
        annotations={str(k): str(v) for k, v in (spec.get("annotations") or {}).items()},
        taints=parse_taints(taints),
        startup_taints=parse_taints(startup),
        kubelet=spec.get("kubeletConfiguration") or {},
        limits=faults.attempt(lambda: _limits(spec), {}),
        weight=_whole(spec, "weight", 0, 100, faults) or 0,
        empty_ttl_seconds=_whole(spec, "ttlSecondsAfterEmpty", 0, 2**31, faults),
        expire_seconds=_whole(spec, "ttlSecondsUntilExpired", 0, 2**31, faults),
        consolidation=bool((spec.get("consolidation") or {}).get("enabled")),
        terminating=bool(meta.get("deletionTimestamp")),
        usage=faults.attempt(
            lambda: parse_resources((raw.get("status") or {}).get("resources"), field="status"), {}
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
    labels = {keys.normalise(str(k)): str(v) for k, v in (spec.get("labels") or {}).items()}
    for key, value in labels.items():
        _check_key(key, f"spec.labels[{key}]", faults)
        if not _LABEL_VALUE.match(value):
            faults.note(f"spec.labels[{key}]", f"{value[:63]!r} is not a label value")
    return labels


def _check_key(key: str, field: str, faults: Faults) -> None:
    """P-15, P-17: a qualified name outside the domains that Kubernetes and Karpenter keep."""
    if not _QUALIFIED_NAME.match(key):
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


def _taints(spec: Json, name: str, faults: Faults) -> list[dict[str, str]]:
    good = []
    for index, taint in enumerate(spec.get(name) or ()):
        field = f"spec.{name}[{index}]"
        if not isinstance(taint, Mapping) or not taint.get("key"):
            faults.note(
                f"{field}.key", "a taint needs a key, an effect and perhaps a value in one item"
            )
        elif taint.get("effect") not in EFFECTS:
            faults.note(f"{field}.effect", f"must be one of {', '.join(EFFECTS)}")
        elif not _QUALIFIED_NAME.match(str(taint["key"])):
            faults.note(f"{field}.key", f"{str(taint['key'])[:80]!r} is not a qualified name")
        else:
            good.append(dict(taint))
    return good


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


def _check_lifetime(spec: Json, faults: Faults) -> None:
    """P-12: consolidation and the emptiness TTL exclude each other."""
    if (spec.get("consolidation") or {}).get("enabled") and "ttlSecondsAfterEmpty" in spec:
        faults.note(
            "spec.consolidation", "cannot be enabled together with ttlSecondsAfterEmpty; remove one"
        )


def _provider_ref(spec: Json, faults: Faults) -> str:
    """P-07: settings for AWS come from exactly one place."""
    reference, inline = spec.get("providerRef") or {}, spec.get("provider")
    if inline and reference:
        faults.note("spec.provider", "give either provider or providerRef, not both")
    elif inline:
        faults.note(
            "spec.provider", "move these settings to an AWSNodeTemplate and name it in providerRef"
        )
    elif not reference.get("name"):
        faults.note(
            "spec.providerRef.name", "name the AWSNodeTemplate that says how to build nodes"
        )
    return str(reference.get("name") or "")


def _limits(spec: Json) -> dict[str, int]:
    raw = spec.get("limits") or {}
    if not isinstance(raw, Mapping):
        raise InvalidObject("must be an object with resources", field="spec.limits")
    return parse_resources(raw.get("resources"), field="spec.limits.resources")


def _whole(spec: Json, name: str, least: int, most: int, faults: Faults) -> int | None:
    value = spec.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        faults.note(f"spec.{name}", f"must be a whole number from {least} to {most}")
        return None
    return value
