"""Affinity terms that choose namespaces by labels become terms that name them (SCH-83).

Everything that plans sees names only. What may go wrong: a namespace that the mirror has not seen yet counts with the
one label that Kubernetes gives to all; the plan after its labels arrive is the right one.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from shared.domain.expressions import holds
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.namespaces import NAME_LABEL, NamespaceSelector
from shared.domain.workloads.pods import NOBODY, AffinityTerm, Pod

_Labels = Mapping[str, Mapping[str, str]]
"""Namespace -> its labels."""


def with_namespaces(snapshot: Snapshot) -> Snapshot:
    """The same snapshot, each term's namespaces by name; the object itself when no term asks for labels."""
    asking = [pod for pod in snapshot.pods if _asks(pod)]
    if not asking:
        return snapshot
    labels = _labels(snapshot)
    named = {pod.uid: _named(pod, labels) for pod in asking}
    return replace(snapshot, pods=tuple(named.get(pod.uid, pod) for pod in snapshot.pods))


def _asks(pod: Pod) -> bool:
    return any(term.namespace_selector for term in (*pod.affinity, *pod.anti_affinity))


def _labels(snapshot: Snapshot) -> _Labels:
    """Of the namespaces that are known or have pods."""
    found = {pod.namespace: {NAME_LABEL: pod.namespace} for pod in snapshot.pods}
    return found | {one.name: {**one.labels, NAME_LABEL: one.name} for one in snapshot.namespaces}


def _named(pod: Pod, labels: _Labels) -> Pod:
    return replace(
        pod,
        affinity=tuple(_term(term, labels) for term in pod.affinity),
        anti_affinity=tuple(_term(term, labels) for term in pod.anti_affinity),
    )


def _term(term: AffinityTerm, labels: _Labels) -> AffinityTerm:
    """The union of those named and those selected, as Kubernetes has it: the pod's own is not among them by itself."""
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
