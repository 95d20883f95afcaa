"""Kubernetes' own rules about labels, taints, selectors and ports, written a second time for the plan checker.

Nothing here uses the requirements algebra or the solver: a rule that both get wrong in the same way would not be
found. Labels of a node that does not exist yet are sets: every value that the label may turn out to have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from shared.domain.expressions import PREFER_NO_SCHEDULE, Expression, Taint, Toleration
from shared.domain.labels import normalise
from shared.domain.nodes import DaemonSet
from shared.domain.workloads.pods import AffinityTerm, Pod

PossibleLabels = Mapping[str, frozenset[str]]
"""Label key -> the values it may turn out to have. An absent key: the node will not have the label."""

HostPort = tuple[str, str, int]
Amounts = Mapping[str, int]

_INTEGER = re.compile(r"-?[0-9]+")
_NO_NAMESPACE = "<none>"
"""No pod is in it."""
_EVERY_ADDRESS = ("", "0.0.0.0", "::")


def holds(expression: Expression, value: str | None) -> bool:
    """nodeSelectorRequirement of core/v1 (and Karpenter's Gte, Lte) on one label; None: no such label."""
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return value is not None and _compares(expression, value)


def _compares(expression: Expression, value: str) -> bool:
    if not expression.values or not all(map(_INTEGER.fullmatch, (value, expression.values[0]))):
        return False
    number, bound = int(value), int(expression.values[0])
    match expression.operator:
        case "Gt":
            return number > bound
        case "Lt":
            return number < bound
        case "Gte":
            return number >= bound
        case "Lte":
            return number <= bound
    return False


def always_holds(expression: Expression, labels: PossibleLabels) -> bool:
    """Whatever value the label turns out to have."""
    values = labels.get(normalise(expression.key))
    return holds(expression, None) if not values else all(holds(expression, v) for v in values)


def alternatives(owner: Pod | DaemonSet) -> list[tuple[Expression, ...]]:
    """Node selector and node affinity as one OR of ANDs."""
    selector = tuple(Expression(k, "In", (v,)) for k, v in sorted(owner.node_selector.items()))
    return [(*selector, *term) for term in owner.required_terms or ((),)]


def runs_on(owner: Pod | DaemonSet, labels: PossibleLabels) -> bool:
    """Does one alternative hold whatever the labels turn out to be?"""
    return any(all(always_holds(e, labels) for e in term) for term in alternatives(owner))


def may_run_on(owner: Pod | DaemonSet, labels: PossibleLabels) -> bool:
    """Does one alternative hold for some value of each label?"""
    return any(_possible(term, labels) for term in alternatives(owner))


def _possible(term: Iterable[Expression], labels: PossibleLabels) -> bool:
    by_key: dict[str, list[Expression]] = {}
    for expression in term:
        by_key.setdefault(normalise(expression.key), []).append(expression)
    return all(
        any(all(holds(e, value) for e in asked) for value in labels.get(key) or (None,))
        for key, asked in by_key.items()
    )


def tolerated(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """PreferNoSchedule never keeps a pod out for good (SCH-23 step 6)."""
    return all(
        taint.effect == PREFER_NO_SCHEDULE or any(_covers(t, taint) for t in tolerations)
        for taint in taints
    )


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.key == "":
        return toleration.operator == "Exists"
    same_value = toleration.operator == "Exists" or toleration.value == taint.value
    return toleration.key == taint.key and same_value


def collide(left: Iterable[HostPort], right: Iterable[HostPort]) -> bool:
    """SCH-90: same protocol and port, on the same address or on every address."""
    return any(
        (a[0], a[2]) == (b[0], b[2])
        and (a[1] == b[1] or a[1] in _EVERY_ADDRESS or b[1] in _EVERY_ADDRESS)
        for a in left
        for b in right
    )


def selects(
    match_labels: Mapping[str, str],
    expressions: Iterable[Expression],
    namespaces: Iterable[str],
    pod: Pod,
) -> bool:
    """A label selector over the pods of some namespaces; no namespace at all means every one (SCH-83)."""
    allowed = tuple(namespaces)
    return (
        (not allowed or pod.namespace in allowed)
        and all(pod.labels.get(k) == v for k, v in match_labels.items())
        and all(holds(e, pod.labels.get(e.key)) for e in expressions)
    )


def with_named_namespaces(pod: Pod, labels: Mapping[str, Mapping[str, str]]) -> Pod:
    """Affinity terms that select namespaces by label name them instead (SCH-83). ``labels``: of each namespace."""

    def named(term: AffinityTerm) -> AffinityTerm:
        asked = term.namespace_selector
        if asked is None:
            return term
        found = {
            name
            for name, values in labels.items()
            if all(values.get(k) == v for k, v in asked.match_labels.items())
            and all(holds(e, values.get(e.key)) for e in asked.expressions)
        }
        names = tuple(sorted(found | set(term.namespaces or ()))) or (_NO_NAMESPACE,)
        return replace(term, namespaces=names, namespace_selector=None)

    return replace(
        pod,
        affinity=tuple(named(term) for term in pod.affinity),
        anti_affinity=tuple(named(term) for term in pod.anti_affinity),
    )


def total(parts: Iterable[Amounts]) -> dict[str, int]:
    """Requests of several pods: the sum, with at least one pod slot each (SCH-60)."""
    found: dict[str, int] = {"pods": 0}
    for part in parts:
        for name, amount in part.items():
            if name != "pods":
                found[name] = found.get(name, 0) + amount
        found["pods"] += max(part.get("pods", 0), 1)
    return found


def overrun(wanted: Amounts, available: Amounts) -> list[str]:
    """The resources of which more is wanted than there is, sorted."""
    return sorted(name for name, n in wanted.items() if n > max(available.get(name, 0), 0))
