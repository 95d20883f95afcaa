"""Pod shapes: pods with the same scheduling requirements share one compiled object.

10,000 replicas are one shape: its selectors are compiled once and its verdict per node is cached, so trying the next
replica costs a comparison of integers per node. The key contains every field that a filter or score reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from local.cluster.control_plane.informers import Key, Obj, key_of
from local.cluster.scheduling.quantities import (
    Resources,
    host_ports,
    pod_requests,
    scoring_requests,
)
from local.cluster.scheduling.selectors import (
    NodePredicate,
    node_predicate,
    node_term_predicate,
)
from local.cluster.storage.selectors import LabelPredicate, label_predicate

SPEC_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "overhead",
    "priority",
    "preemptionPolicy",
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def shape_key(pod: Obj) -> bytes:
    """A key that is equal for pods which the scheduler cannot distinguish."""
    spec, metadata = pod["spec"], pod["metadata"]
    containers = [
        [c.get("resources"), c.get("ports"), c.get("restartPolicy")]
        for kind in ("containers", "initContainers")
        for c in [*(spec.get(kind) or ()), {}]
    ]
    parts = [
        metadata.get("namespace"),
        metadata.get("labels"),
        (pod.get("status") or {}).get("nominatedNodeName"),
        [spec.get(name) for name in SPEC_FIELDS],
        claim_names(pod),
        device_claim_names(pod),
        containers,
    ]
    return orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)


def claim_names(pod: Obj) -> tuple[str, ...]:
    """The PersistentVolumeClaims that a pod mounts. The claim of an ephemeral volume is named after pod and volume."""
    found: list[str] = []
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral"):
            name = f"{pod['metadata']['name']}-{volume['name']}"
        if name:
            found.append(name)
    return tuple(found)


def device_claim_names(pod: Obj) -> tuple[str, ...]:
    """The ResourceClaims of a pod; empty names stand for claims that are not made from their templates yet."""
    made = {
        one["name"]: one.get("resourceClaimName")
        for one in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    found: list[str] = []
    for one in pod["spec"].get("resourceClaims") or ():
        if name := one.get("resourceClaimName"):
            found.append(name)
        elif made.get(one["name"], "") is not None:
            found.append(made.get(one["name"]) or "")
    return tuple(found)


@dataclass(frozen=True, eq=False)
class PodSelector:
    """The pods of an affinity term or spread constraint: a label selector within some namespaces."""

    identity: bytes
    labels_match: LabelPredicate
    namespaces: frozenset[str]
    namespace_match: LabelPredicate | None
    skip_terminating: bool

    def matches(self, shape: PodShape, namespace_labels: Mapping[str, Mapping[str, str]]) -> bool:
        """Whether pods of this shape match."""
        return self._in_namespace(shape.namespace, namespace_labels) and self.labels_match(
            shape.labels
        )

    def _in_namespace(
        self, namespace: str, namespace_labels: Mapping[str, Mapping[str, str]]
    ) -> bool:
        if namespace in self.namespaces:
            return True
        return self.namespace_match is not None and self.namespace_match(
            namespace_labels.get(namespace, {})
        )


@dataclass(frozen=True, eq=False)
class AffinityTerm:
    """One pod (anti-)affinity term; ``weight`` is 0 for required ones."""

    topology_key: str
    selector: PodSelector
    weight: int = 0


@dataclass(frozen=True, eq=False)
class SpreadConstraint:
    """One topologySpreadConstraint with its defaults filled in."""

    topology_key: str
    max_skew: int
    min_domains: int
    hard: bool
    selector: PodSelector
    honor_affinity: bool
    honor_taints: bool


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodShape:
    """The compiled scheduling fields of a pod."""

    key: bytes
    namespace: str
    labels: Mapping[str, str]
    priority: int
    requests: Resources
    scoring: tuple[int, int]
    ports: frozenset[tuple[str, str, int]]
    tolerations: Sequence[Mapping[str, Any]]
    node_match: NodePredicate
    node_names: frozenset[str] | None
    preferred_nodes: list[tuple[int, NodePredicate]]
    affinity: list[AffinityTerm]
    anti_affinity: list[AffinityTerm]
    preferred_pods: list[AffinityTerm]
    spread: list[SpreadConstraint]
    nominated: str | None
    preempts: bool
    claims: tuple[str, ...] = ()
    device_claims: tuple[str, ...] = ()
    nonzero_requests: list[tuple[str, int]] = field(init=False)
    """The requests that are not zero."""
    node_verdicts: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nonzero_requests = [(name, value) for name, value in self.requests.items() if value]

    @property
    def depends_on_pods(self) -> bool:
        """Whether a newly placed pod may make room for this one."""
        return bool(self.affinity or self.anti_affinity or self.spread)


@dataclass(eq=False, slots=True)
class PodInfo:
    """One pod as the scheduler knows it."""

    key: Key
    uid: str
    created: str
    shape: PodShape
    terminating: bool

    def is_renominated(self, before: PodInfo) -> bool:
        """Whether ``before`` is the same waiting pod and only its nomination differs among the fields that may change
        while a pod waits.
        """
        old, new = before.shape, self.shape
        same = (before.uid, old.labels, old.tolerations) == (self.uid, new.labels, new.tolerations)
        return same and old.nominated != new.nominated


def compile_shape(pod: Obj, key: bytes) -> PodShape:
    """Compile a pod's scheduling fields. Raises InvalidObject for a malformed quantity."""
    spec, metadata, labels = pod["spec"], pod["metadata"], pod["metadata"].get("labels") or {}
    namespace = metadata.get("namespace") or "default"
    affinity = spec.get("affinity") or {}
    pod_affinity, anti = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    preferred = (affinity.get("nodeAffinity") or {}).get(PREFERRED) or ()
    return PodShape(
        key=key,
        namespace=namespace,
        labels=labels,
        priority=spec.get("priority") or 0,
        requests=pod_requests(spec),
        scoring=scoring_requests(spec),
        ports=host_ports(spec.get("containers") or ()),
        tolerations=spec.get("tolerations") or [],
        node_match=node_predicate(spec),
        node_names=_named_nodes(affinity),
        preferred_nodes=[(p["weight"], node_term_predicate(p["preference"])) for p in preferred],
        affinity=[_term(t, namespace, labels) for t in pod_affinity.get(REQUIRED) or ()],
        anti_affinity=[_term(t, namespace, labels) for t in anti.get(REQUIRED) or ()],
        preferred_pods=_preferred(pod_affinity, namespace, labels, 1)
        + _preferred(anti, namespace, labels, -1),
        spread=[_spread(c, namespace, labels) for c in spec.get("topologySpreadConstraints") or ()],
        nominated=(pod.get("status") or {}).get("nominatedNodeName") or None,
        preempts=spec.get("preemptionPolicy") != "Never",
        claims=claim_names(pod),
        device_claims=device_claim_names(pod),
    )


def pod_info(pod: Obj, shape: PodShape) -> PodInfo:
    """The scheduler's record of a pod."""
    metadata = pod["metadata"]
    return PodInfo(
        key=key_of(pod),
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp") or "",
        shape=shape,
        terminating=bool(metadata.get("deletionTimestamp")),
    )


def _named_nodes(affinity: Mapping[str, Any]) -> frozenset[str] | None:
    """The only nodes that can match, when every term selects nodes by metadata.name (DaemonSet pods)."""
    required = (affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}
    names: set[str] = set()
    for term in required.get("nodeSelectorTerms") or ():
        fields = [f for f in term.get("matchFields") or () if f["operator"] == "In"]
        if not fields:
            return None
        names.update(fields[0]["values"])
    return frozenset(names) or None


def _selector(
    rule: Mapping[str, Any],
    labels: Mapping[str, str],
    namespaces: frozenset[str],
    namespace_selector: Mapping[str, Any] | None,
    skip_terminating: bool,
) -> PodSelector:
    raw = rule.get("labelSelector")
    extra = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in rule.get(name) or ()
        if key in labels
    ]
    if raw is not None and extra:
        raw = {**raw, "matchExpressions": [*(raw.get("matchExpressions") or ()), *extra]}
    identity = orjson.dumps(
        [raw, sorted(namespaces), namespace_selector, skip_terminating],
        option=orjson.OPT_SORT_KEYS,
    )
    by_namespace = None if namespace_selector is None else label_predicate(namespace_selector)
    return PodSelector(identity, label_predicate(raw), namespaces, by_namespace, skip_terminating)


def _term(
    term: Mapping[str, Any], namespace: str, labels: Mapping[str, str], weight: int = 0
) -> AffinityTerm:
    named = frozenset(term.get("namespaces") or ())
    by_selector = term.get("namespaceSelector")
    if not named and by_selector is None:
        named = frozenset({namespace})
    selector = _selector(term, labels, named, by_selector, False)
    return AffinityTerm(term["topologyKey"], selector, weight)


def _preferred(
    affinity: Mapping[str, Any], namespace: str, labels: Mapping[str, str], sign: int
) -> list[AffinityTerm]:
    return [
        _term(t["podAffinityTerm"], namespace, labels, sign * t["weight"])
        for t in affinity.get(PREFERRED) or ()
    ]


def _spread(
    constraint: Mapping[str, Any], namespace: str, labels: Mapping[str, str]
) -> SpreadConstraint:
    return SpreadConstraint(
        topology_key=constraint["topologyKey"],
        max_skew=constraint["maxSkew"],
        min_domains=constraint.get("minDomains") or 1,
        hard=constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
        selector=_selector(constraint, labels, frozenset({namespace}), None, True),
        honor_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honor_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )
