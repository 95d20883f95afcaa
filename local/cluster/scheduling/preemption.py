"""Preemption: the pods of lower priority that must be removed for a pod that fits nowhere (DefaultPreemption).

Plain decisions over the scheduler's own state. A node is tried by removing its pods of lower priority and restoring,
most important first, each pod that still fits; the state is the same afterwards. As in a real cluster, disruption
budgets are respected where possible, without a guarantee.
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
"""Nodes on which one attempt searches for victims; the next attempt starts at another node."""
PRIORITY_SPAN = 1 << 31
"""Added to each priority of a sum, so that more victims always weigh more, also with negative priorities."""
WAITS = "not eligible due to a terminating pod on the nominated node"
NEVER = "not eligible due to preemptionPolicy=Never"


@dataclass(frozen=True)
class Candidate:
    """A node, the pods that must be removed from it, and how many of them a disruption budget protects."""

    node: NodeState
    victims: tuple[PodInfo, ...]
    violations: int


class Budgets:
    """The current disruption budgets, applied to the pods of a node one after another."""

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
        """Keys of the pods that no budget allows to remove, when all earlier pods are removed."""
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
    """The reason why the pod may not preempt others now; empty when it may."""
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
    """The node on which to make room, None when preemption helps nowhere."""
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
    # Pods that a budget protects are restored first.
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
    """Smaller is better: few protected pods, then unimportant, few and young victims."""
    priorities = [victim.shape.priority for victim in candidate.victims]
    highest = max(priorities)
    oldest = min(
        parse_rfc3339(one.created) for one in candidate.victims if one.shape.priority == highest
    )
    weight = sum(priority + PRIORITY_SPAN for priority in priorities)
    return (candidate.violations, highest, weight, len(priorities), -oldest)
