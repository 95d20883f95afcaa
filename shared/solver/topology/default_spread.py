"""The cluster's own spread constraints, for pods that say nothing about it (SCH-85).

kube-scheduler counts the pods that the pod's controller and its Services select. Neither is looked up: the controller's
pods carry the labels of one template, so the pod's own labels select them, without those that differ from pod to pod.
A Job's or DaemonSet's selector is none of kube-scheduler's sources, so their pods get no constraints.
"""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.workloads.pods import Pod, SpreadConstraint

OF_ONE_POD = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-revision-hash",
    }
)
"""Labels that a controller gives to single pods, or to all of one revision."""

SELECTING = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController"})
"""Kinds of controllers whose selector kube-scheduler takes."""


def with_default_spread(pod: Pod, constraints: tuple[SpreadConstraint, ...]) -> Pod:
    """The pod with these constraints, if it has such a controller, labels, and no constraint of its own."""
    if not constraints or pod.spread or pod.owner is None or pod.owner.kind not in SELECTING:
        return pod
    labels = {key: value for key, value in pod.labels.items() if key not in OF_ONE_POD}
    if not labels:
        return pod
    spread = tuple(replace(one, match_labels=labels, expressions=()) for one in constraints)
    return replace(pod, spread=spread)
