"""Label selectors of spread constraints and affinity terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from shared.domain.expressions import Expression, holds
from shared.domain.workloads.by_node import Noted, by_node
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint


class Selector(NamedTuple):
    """Labels and expressions that a pod of these namespaces must all match; no namespaces means all (SCH-83).

    An empty selector selects every pod of its namespaces.
    """

    namespaces: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    expressions: tuple[Expression, ...]

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Does it select a pod with this namespace and these labels?"""
        if self.namespaces and namespace not in self.namespaces:
            return False
        for key, value in self.labels:
            if labels.get(key) != value:
                return False
        if not self.expressions:
            return True
        return all(holds(expression, labels) for expression in self.expressions)


def spread_selector(pod: Pod, constraint: SpreadConstraint) -> Selector:
    """A constraint's selector; ``match_label_keys`` adds the pod's own values (SCH-77)."""
    own = {k: pod.labels[k] for k in constraint.match_label_keys if k in pod.labels}
    labels = tuple(sorted({**constraint.match_labels, **own}.items()))
    return Selector((pod.namespace,), labels, constraint.expressions)


def affinity_selector(pod: Pod, term: AffinityTerm) -> Selector:
    """An affinity term's selector; a term without namespaces means the pod's own."""
    namespaces = (pod.namespace,) if term.namespaces is None else tuple(sorted(term.namespaces))
    return Selector(namespaces, tuple(sorted(term.match_labels.items())), term.expressions)


def label_keys_of_all(pods: tuple[Pod, ...]) -> frozenset[str]:
    """As ``label_keys``, for all pods of a cluster."""
    return frozenset().union(*_label_keys.all(by_node(pods)))


def label_keys(pods: Iterable[Pod]) -> frozenset[str]:
    """The label keys that rules of these pods read. ``""`` is added when there are rules, since a rule that selects
    every pod reads no key."""
    found: set[str] = set()
    for pod in pods:
        for constraint in pod.spread:
            found.update(constraint.match_labels, constraint.match_label_keys)
            if constraint.expressions:
                found.update(expression.key for expression in constraint.expressions)
        for term in pod.affinity + pod.anti_affinity:
            found.update(term.match_labels)
            if term.expressions:
                found.update(expression.key for expression in term.expressions)
        if pod.spread or pod.affinity or pod.anti_affinity:
            found.add("")
    return frozenset(found)


_label_keys = Noted(label_keys)
