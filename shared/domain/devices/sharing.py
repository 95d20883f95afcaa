"""Pods that share a resource claim without an allocation are planned onto one node, and its devices count once.

The first of them by size carries the devices: it gets a label, and the others a required pod affinity to that label by
host. So they follow it, and none of them goes anywhere while the first has no place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.demands import Claims
from shared.domain.resources import CPU, MEMORY
from shared.domain.workloads.pods import AffinityTerm, Pod

LABEL = "dovetail.sh/shared-resource-claim"


@dataclass(frozen=True)
class Sharing:
    """``labels``: shared claim -> value of the label. ``carried``: pod UID -> that of the pod; ``followed``: pod UID ->
    claims whose devices others carry."""

    labels: Mapping[str, str] = field(default_factory=dict)
    carried: Mapping[str, str] = field(default_factory=dict)
    followed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def by_others(self, pod: Pod) -> frozenset[str]:
        """Claims of this pod whose devices another one carries."""
        return self.followed.get(pod.uid, frozenset())

    def bound(self, pod: Pod) -> Pod:
        """The pod with its label or its affinity."""
        if label := self.carried.get(pod.uid):
            pod = replace(pod, labels={**pod.labels, LABEL: label})
        for label in sorted({self.labels[claim] for claim in self.by_others(pod)}):
            term = AffinityTerm(keys.HOSTNAME, match_labels={LABEL: label}, namespaces=())
            pod = replace(pod, affinity=(*pod.affinity, term))
        return pod


def shared_claims(pods: Iterable[Pod], claims: Claims, reschedule: frozenset[str]) -> Sharing:
    """Which of these pods share claims that are, or will be, without an allocation."""
    users: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        for claim in claims.of(pod):
            if not claim.is_allocated or pod.uid in reschedule:
                users[claim.key].append(pod)
    labels: dict[str, str] = {}
    carried: dict[str, str] = {}
    followed: dict[str, set[str]] = defaultdict(set)
    for key, sharers in sorted(users.items()):
        if len(sharers) < 2:
            continue
        # Before the others of the planner's queue: one that a plan placed already, or that carries another claim.
        first = min(
            sharers, key=lambda pod: (not pod.node_name, pod.uid not in carried, *_size(pod))
        )
        labels[key] = carried.setdefault(first.uid, key)
        for pod in sharers:
            if pod.uid != first.uid:
                followed[pod.uid].add(key)
    return Sharing(labels, carried, {uid: frozenset(found) for uid, found in followed.items()})


def _size(pod: Pod) -> tuple[int, int, float, str]:
    return (-pod.requests.get(CPU, 0), -pod.requests.get(MEMORY, 0), pod.created_at, pod.uid)
