"""Affinity terms that select namespaces by labels become terms that list namespace names (SCH-83).

The rest of the planner sees names only. What may go wrong: a namespace that is not in the mirror yet counts with the
one label that Kubernetes gives every namespace; plans are right once its labels arrive.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from msgspec.structs import replace

from shared.domain.expressions import holds
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import Noted, by_node
from shared.domain.workloads.namespaces import NAME_LABEL, NamespaceSelector
from shared.domain.workloads.pods import NOBODY, AffinityTerm, Pod

_Labels = Mapping[str, Mapping[str, str]]
"""Namespace -> its labels."""


def with_namespaces(snapshot: Snapshot) -> Snapshot:
    """The snapshot with each term's namespaces by name; the same object when no term has a namespace selector."""
    selecting = [*chain.from_iterable(_selecting.all(by_node(snapshot.pods)))]
    if not selecting:
        return snapshot
    labels = _labels(snapshot)
    named = {pod.uid: _named(pod, labels) for pod in selecting}
    return replace(snapshot, pods=tuple(named.get(pod.uid, pod) for pod in snapshot.pods))


def _has_namespace_selector(pod: Pod) -> bool:
    if not (pod.affinity or pod.anti_affinity):
        return False
    return any(term.namespace_selector for term in (*pod.affinity, *pod.anti_affinity))


_selecting = Noted(lambda pods: list(filter(_has_namespace_selector, pods)))


def _labels(snapshot: Snapshot) -> _Labels:
    """The labels of all namespaces in the snapshot and of those that only its pods name."""
    found = {pod.namespace: {NAME_LABEL: pod.namespace} for pod in snapshot.pods}
    return found | {one.name: {**one.labels, NAME_LABEL: one.name} for one in snapshot.namespaces}


def _named(pod: Pod, labels: _Labels) -> Pod:
    return replace(
        pod,
        affinity=tuple(_term(term, labels) for term in pod.affinity),
        anti_affinity=tuple(_term(term, labels) for term in pod.anti_affinity),
    )


def _term(term: AffinityTerm, labels: _Labels) -> AffinityTerm:
    """The union of listed and selected namespaces, as in Kubernetes; the pod's own is not added by default."""
    selector = term.namespace_selector
    if selector is None:
        return term
    selected = {name for name in labels if _selects(selector, labels[name])}
    names = tuple(sorted(selected.union(term.namespaces or ())))
    if not names:  # no names would mean all namespaces
        return replace(term, match_labels={}, expressions=(NOBODY,), namespace_selector=None)
    return replace(term, namespaces=names, namespace_selector=None)


def _selects(selector: NamespaceSelector, labels: Mapping[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(holds(expression, labels) for expression in selector.expressions)
