"""The changes of a pod that may place it. Each gives up one rule or a part of its requests."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.domain.expressions import PREFER_NO_SCHEDULE, Taint, Toleration
from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import PODS, format_amount
from shared.domain.workloads.pods import AffinityTerm, Pod
from shared.simulation.changes.edits import Action, Edit, of_pod

TOLERATE, SOFTEN, SEPARATE, UNPIN, SHRINK, WITHOUT_DEVICES = 10, 20, 25, 30, 45, 60
"""Weights: a toleration gives up nothing, a smaller request may make the program fail."""

Change = Callable[[Pod], Pod]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODE_AFFINITY = f"spec.affinity.nodeAffinity.{REQUIRED}"


def pod_edits(pod: Pod, pools: Iterable[NodePool]) -> Iterator[Edit]:
    """All edits, the same for the same input, in no particular order."""
    yield from _tolerations(pod, pools)
    yield from _unpinned(pod)
    yield from _spread(pod)
    yield from _affinities(pod)
    yield from (smaller(pod, name, 0) for name in sorted(pod.requests) if name != PODS)
    if pod.claims_devices:
        yield _without_devices(pod)


def _tolerations(pod: Pod, pools: Iterable[NodePool]) -> Iterator[Edit]:
    taints = {
        taint for pool in pools for taint in pool.taints if taint.effect != PREFER_NO_SCHEDULE
    }
    for taint in sorted(taints, key=msgspec.structs.astuple):
        if not any(one.tolerates(taint) for one in pod.tolerations):
            yield _tolerating(pod, taint)


def _tolerating(pod: Pod, taint: Taint) -> Edit:
    operator = "Equal" if taint.value else "Exists"
    added = Toleration(taint.key, operator, taint.value, taint.effect)
    written = {"key": taint.key, "operator": operator, "value": taint.value, "effect": taint.effect}
    return _edit(
        pod,
        "spec.tolerations",
        "add",
        {name: text for name, text in written.items() if text},
        f"tolerate the taint {taint.text()}",
        TOLERATE,
        lambda one: replace(one, tolerations=(*one.tolerations, added)),
    )


def _unpinned(pod: Pod) -> Iterator[Edit]:
    for key, value in sorted(pod.node_selector.items()):
        text = f"remove {key}: {value} from the node selector"
        yield _edit(pod, "spec.nodeSelector", "remove", key, text, UNPIN, _without_selector(key))
    for key in sorted({e.key for term in pod.required_terms for e in term}):
        text = f"remove the expressions on {key} from the required node affinity"
        yield _edit(pod, NODE_AFFINITY, "remove", key, text, UNPIN, _without_expressions(key))


def _without_selector(key: str) -> Change:
    return lambda pod: replace(
        pod, node_selector={k: v for k, v in pod.node_selector.items() if k != key}
    )


def _without_expressions(key: str) -> Change:
    """A term without expressions would select no node, so the whole affinity goes when one has none left."""

    def change(pod: Pod) -> Pod:
        terms = tuple(tuple(e for e in term if e.key != key) for term in pod.required_terms)
        return replace(pod, required_terms=terms if all(terms) else ())

    return change


def _spread(pod: Pod) -> Iterator[Edit]:
    for index, one in enumerate(pod.spread):
        if one.when_unsatisfiable == "DoNotSchedule":
            field = f"spec.topologySpreadConstraints[{index}].whenUnsatisfiable"
            text = f"make the spread over {one.topology_key} a preference (ScheduleAnyway)"
            yield _edit(pod, field, "set", "ScheduleAnyway", text, SOFTEN, _softened(index))


def _softened(index: int) -> Change:
    def change(pod: Pod) -> Pod:
        rules = list(pod.spread)
        rules[index] = replace(rules[index], when_unsatisfiable="ScheduleAnyway")
        return replace(pod, spread=tuple(rules))

    return change


def _affinities(pod: Pod) -> Iterator[Edit]:
    for index, term in enumerate(term for term in pod.affinity if term.weight is None):
        text = f"remove the required pod affinity over {term.topology_key}"
        field = f"spec.affinity.podAffinity.{REQUIRED}"
        yield _edit(pod, field, "remove", index, text, SEPARATE, _without_affinity(term))
    for index, term in enumerate(term for term in pod.anti_affinity if term.weight is None):
        text = f"remove the required pod anti-affinity over {term.topology_key}"
        field = f"spec.affinity.podAntiAffinity.{REQUIRED}"
        yield _edit(pod, field, "remove", index, text, SEPARATE, _without_anti_affinity(term))


def _without_affinity(term: AffinityTerm) -> Change:
    return lambda pod: replace(pod, affinity=_without(pod.affinity, term))


def _without_anti_affinity(term: AffinityTerm) -> Change:
    return lambda pod: replace(pod, anti_affinity=_without(pod.anti_affinity, term))


def _without(terms: tuple[AffinityTerm, ...], term: AffinityTerm) -> tuple[AffinityTerm, ...]:
    left = list(terms)
    left.remove(term)
    return tuple(left)


def smaller(pod: Pod, resource: str, amount: int) -> Edit:
    """A request of at most ``amount`` (in the resource's own unit) for the whole pod; 0 takes it away. The weight grows
    with the part that is given up."""
    asked = pod.requests[resource]
    field = f"spec.containers[].resources.requests.{resource}"
    weight = SHRINK + (SHRINK * (asked - amount)) // max(asked, 1)
    change = _requesting(resource, amount)
    if not amount:
        text = f"remove the request for {resource}"
        return dataclasses.replace(
            _edit(pod, field, "remove", None, text, weight, change), resource=resource
        )
    given, wanted = (format_amount(resource, one) for one in (amount, asked))
    text = f"lower the request for {resource} from {wanted} to {given}"
    return _edit(pod, field, "set", given, text, weight, change)


def _requesting(resource: str, amount: int) -> Change:
    def change(pod: Pod) -> Pod:
        others = {name: held for name, held in pod.requests.items() if name != resource}
        return replace(pod, requests={**others, resource: amount} if amount else others)

    return change


def _without_devices(pod: Pod) -> Edit:
    text = "remove its resource claims"
    change: Change = partial(replace, claims_devices=False, device_claims=())
    return _edit(pod, "spec.resourceClaims", "remove", None, text, WITHOUT_DEVICES, change)


def _edit(
    pod: Pod, field: str, action: Action, value: Any, text: str, weight: int, change: Change
) -> Edit:
    return Edit(f"Pod {pod.key}", field, action, value, text, weight, of_pod(pod.uid, change))
