"""Preemption: which pods of lower priority must go for a pod that fits nowhere (kube-scheduler's DefaultPreemption).

Plain decisions over the scheduler's own state. A node is tried by taking its lesser pods away and giving back, the
most important first, each that the pod still fits beside; the state is the same afterwards. Disruption budgets are
preferred to be kept, as in a real cluster, and not a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from local.cluster.control_plane.informers import Obj
from local.cluster.scheduling.filters import pod_checks, refusals
from local.cluster.scheduling.shapes import PodInfo
from local.cluster.scheduling.state import ClusterState, NodeState
from local.cluster.storage.selectors import selector_matches
from shared.concurrency.clock import parse_rfc3339

TRIED_NODES = 100
"""Nodes on which victims are looked for at one attempt; the next attempt begins elsewhere."""
PRIORITY_SPAN = 1 << 31
"""Added to each priority of a sum: more victims then weigh more, also those with negative priorities."""
WAITS = "not eligible due to a terminating pod on the nominated node"
NEVER = "not eligible due to preemptionPolicy=Never"


@dataclass(frozen=True)
class Candidate:
    """A node, the pods that must leave it, and how many of them a disruption budget protects."""

    node: NodeState
    victims: tuple[PodInfo, ...]
    violations: int


class Budgets:
    """The disruption budgets as they are now, asked about pods of a node one after another."""

    def __init__(self, budgets: Iterable[Obj]) -> None:
        self._budgets = [
            (
                one["metadata"]["namespace"],
                (one.get("spec") or {}).get("selector"),
                int((one.get("status") or {}).get("disruptionsAllowed") or 0),
            )
            for one in budgets
        ]

    def protected(self, pods: Sequence[PodInfo]) -> set[Any]:
        """Keys of those that no budget lets go, if all that come before them go."""
        left = [allowed for _, _, allowed in self._budgets]
        found = set()
        for pod in pods:
            meant = [
                n
                for n, (space, selector, _) in enumerate(self._budgets)
                if _means(space, selector, pod)
            ]
            if any(left[number] <= 0 for number in meant):
                found.add(pod.key)
            for number in meant:
                left[number] -= 1
        return found


def _means(namespace: str, selector: Any, pod: PodInfo) -> bool:
    return pod.shape.namespace == namespace and selector_matches(selector, dict(pod.shape.labels))


def refusal_to_preempt(pod: PodInfo, state: ClusterState) -> str:
    """Why the pod may not preempt others now; empty when it may."""
    if not pod.shape.preempts:
        return NEVER
    node = state.nodes.get(pod.shape.nominated or "")
    if node is not None and any(
        other.terminating and other.shape.priority < pod.shape.priority
        for other in node.pods.values()
    ):
        return WAITS
    return ""


def find_candidate(
    pod: PodInfo, state: ClusterState, nodes: Iterable[NodeState], budgets: Budgets
) -> Candidate | None:
    """The node to make room on, None when that would help nowhere."""
    if not state.has_priority_below(pod.shape.priority):
        return None
    checks = pod_checks(pod.shape, state)
    found: list[Candidate] = []
    tried = 0
    for node in nodes:
        if tried >= TRIED_NODES:
            break
        if not any(other.shape.priority < pod.shape.priority for other in node.pods.values()):
            continue
        reasons, helpless = refusals(pod, node, state, checks)
        if helpless or not reasons:
            continue
        tried += 1
        candidate = _candidate(pod, node, state, budgets)
        if candidate is not None:
            found.append(candidate)
    return min(found, key=_cost, default=None)


def _candidate(
    pod: PodInfo, node: NodeState, state: ClusterState, budgets: Budgets
) -> Candidate | None:
    lesser = [other for other in node.pods.values() if other.shape.priority < pod.shape.priority]
    lesser.sort(key=lambda other: (-other.shape.priority, other.created))
    protected = budgets.protected(lesser)
    for other in lesser:
        state.remove_pod(other.key)
    victims: list[PodInfo] = []
    fits = _fits(pod, node, state)
    # Those that a budget protects are given back first.
    for other in sorted(lesser, key=lambda one: one.key not in protected):
        state.place(other, node.name)
        if fits and not _fits(pod, node, state):
            state.remove_pod(other.key)
            victims.append(other)
    for other in victims:
        state.place(other, node.name)
    if not fits or not victims:
        return None
    return Candidate(node, tuple(victims), sum(one.key in protected for one in victims))


def _fits(pod: PodInfo, node: NodeState, state: ClusterState) -> bool:
    return not refusals(pod, node, state, pod_checks(pod.shape, state))[0]


def _cost(candidate: Candidate) -> tuple[float, ...]:
    """Less is better: budgets kept, unimportant victims, few of them, young ones."""
    priorities = [victim.shape.priority for victim in candidate.victims]
    highest = max(priorities)
    oldest = min(
        parse_rfc3339(one.created) for one in candidate.victims if one.shape.priority == highest
    )
    weight = sum(priority + PRIORITY_SPAN for priority in priorities)
    return (candidate.violations, highest, weight, len(priorities), -oldest)
