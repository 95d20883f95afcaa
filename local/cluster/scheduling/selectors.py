"""Node selectors and node affinity, compiled once into predicates; taints and tolerations.

Semantics: Kubernetes 1.32 API reference, NodeSelectorTerm and Toleration. An empty node selector term matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from local.cluster.storage.selectors import Labels, requirement

NodePredicate = Callable[[Labels, str], bool]
"""Called with a node's labels and name."""


def node_term_predicate(term: Mapping[str, Any]) -> NodePredicate:
    """One NodeSelectorTerm: all matchExpressions and all matchFields (metadata.name only)."""
    by_label = [requirement(e) for e in term.get("matchExpressions") or ()]
    by_name = [requirement({**e, "key": "name"}) for e in term.get("matchFields") or ()]
    if not by_label and not by_name:
        return lambda _labels, _name: False

    def matches(labels: Labels, name: str) -> bool:
        return all(term.matches(labels) for term in by_label) and all(
            term.matches({"name": name}) for term in by_name
        )

    return matches


def node_predicate(spec: Mapping[str, Any]) -> NodePredicate:
    """Whether a node satisfies both the pod's nodeSelector and its required node affinity."""
    exact_labels = dict(spec.get("nodeSelector") or {})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = [node_term_predicate(term) for term in (required or {}).get("nodeSelectorTerms") or ()]

    def matches(labels: Labels, name: str) -> bool:
        for key, value in exact_labels.items():
            if labels.get(key) != value:
                return False
        return required is None or any(term(labels, name) for term in terms)

    return matches


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether one toleration covers one taint."""
    effect, key = toleration.get("effect"), toleration.get("key") or ""
    if effect and effect != taint.get("effect"):
        return False
    exists = toleration.get("operator") == "Exists"
    if key and key != taint["key"]:
        return False
    if not key:
        return exists
    return exists or (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(
    taints: Iterable[Mapping[str, Any]],
    tolerations: Sequence[Mapping[str, Any]],
    effects: Sequence[str] = ("NoSchedule", "NoExecute"),
) -> Mapping[str, Any] | None:
    """The first taint with one of ``effects`` that no toleration covers."""
    for taint in taints:
        if taint.get("effect") in effects and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None
