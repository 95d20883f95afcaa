"""The cluster's default spread constraints, for pods without constraints of their own (SCH-85).

kube-scheduler counts the pods that the pod's controller and its Services select. The planner looks up neither: all pods
of a controller have the labels of one template, so the pod's own labels select them, without the labels that differ
from pod to pod. kube-scheduler does not use the selectors of Jobs and DaemonSets, so their pods get no constraints.
"""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.workloads.pods import Pod, SpreadConstraint

POD_SPECIFIC_LABELS = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
    }
)
"""Labels that a controller gives to single pods, or to the pods of one revision."""

CONTROLLERS_WITH_SELECTOR = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds of controllers whose selector kube-scheduler uses."""


def with_default_spread(pod: Pod, constraints: tuple[SpreadConstraint, ...]) -> Pod:
    """The pod, with these constraints if it has such a controller, labels, and no constraint of its own."""
    if (
        not constraints
        or pod.spread
        or pod.owner is None
        or pod.owner.kind not in CONTROLLERS_WITH_SELECTOR
    ):
        return pod
    labels = {key: value for key, value in pod.labels.items() if key not in POD_SPECIFIC_LABELS}
    if not labels:
        return pod
    spread = tuple(replace(one, match_labels=labels, expressions=()) for one in constraints)
    return replace(pod, spread=spread)
