"""Selectors, compiled once into predicates: label selectors, node affinity, taints and tolerations.

Semantics: Kubernetes 1.32 API reference, LabelSelector, NodeSelectorTerm and Toleration. An empty
node selector term matches nothing; an empty label selector matches everything; a missing (None)
label selector matches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Labels = Mapping[str, str]
LabelPredicate = Callable[[Labels], bool]
NodePredicate = Callable[[Labels, str], bool]
"""Called with a node's labels and name."""
Requirement = Mapping[str, Any]


def _integer(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _requirement(expression: Requirement) -> LabelPredicate:
    key, operator = expression["key"], expression["operator"]
    values = frozenset(str(value) for value in expression.get("values") or ())
    bound = _integer(next(iter(values), None))

    def compared(labels: Labels, sign: int) -> bool:
        value = _integer(labels.get(key))
        return value is not None and bound is not None and (value - bound) * sign > 0

    predicates: dict[str, LabelPredicate] = {
        "In": lambda labels: labels.get(key) in values,
        "NotIn": lambda labels: labels.get(key) not in values,
        "Exists": lambda labels: key in labels,
        "DoesNotExist": lambda labels: key not in labels,
        "Gt": lambda labels: compared(labels, 1),
        "Lt": lambda labels: compared(labels, -1),
    }
    return predicates.get(operator, lambda _labels: False)


def label_predicate(selector: Mapping[str, Any] | None) -> LabelPredicate:
    """A metav1.LabelSelector as predicate over labels."""
    if selector is None:
        return lambda _labels: False
    wanted = dict(selector.get("matchLabels") or {})
    requirements = [_requirement(e) for e in selector.get("matchExpressions") or ()]

    def matches(labels: Labels) -> bool:
        for key, value in wanted.items():
            if labels.get(key) != value:
                return False
        return all(requirement(labels) for requirement in requirements)

    return matches


def node_term_predicate(term: Mapping[str, Any]) -> NodePredicate:
    """One NodeSelectorTerm: all matchExpressions and all matchFields (metadata.name only)."""
    by_label = [_requirement(e) for e in term.get("matchExpressions") or ()]
    by_name = [_requirement({**e, "key": "name"}) for e in term.get("matchFields") or ()]
    if not by_label and not by_name:
        return lambda _labels, _name: False

    def matches(labels: Labels, name: str) -> bool:
        return all(p(labels) for p in by_label) and all(p({"name": name}) for p in by_name)

    return matches


def node_predicate(spec: Mapping[str, Any]) -> NodePredicate:
    """A pod's nodeSelector and required node affinity together."""
    wanted = dict(spec.get("nodeSelector") or {})
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = [node_term_predicate(term) for term in (required or {}).get("nodeSelectorTerms") or ()]

    def matches(labels: Labels, name: str) -> bool:
        for key, value in wanted.items():
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
