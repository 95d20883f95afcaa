"""States and waiting times of pods, as in Karpenter (MET-04).

Gauges of single pods are rendered anew at each scrape, so a deleted pod has no series. Times are in seconds.
"""

from __future__ import annotations

from shared.metrics.declaring import GAUGE, Declarations, Declared

PLACE = (
    "nodepool", "provisioner", "zone", "arch", "capacity_type", "instance_type", "managed",
)  # fmt: skip
"""Labels with values from the pod's node; without a node of a pool, ``nodepool`` is ``N/A``."""
_POD = ("name", "namespace")


def _gauge(by: str, name: str, text: str, *labels: str) -> Declared:
    return Declared(f"karpenter_pods_{name}", GAUGE, f"{text}.", labels, (by,))


STATE = _gauge(
    "watcher", "state",
    "Constant 1 for each pod", *_POD, "owner", "node", "phase", "scheduled", "ready", *PLACE,
)  # fmt: skip
UNSTARTED = _gauge(
    "watcher", "unstarted_time_seconds", "Age of a pod that has never been ready", *_POD
)
UNBOUND = _gauge("watcher", "unbound_time_seconds", "Age of a pod that is not bound", *_POD)
UNDECIDED = _gauge(
    "scheduler", "provisioning_scheduling_undecided_time_seconds",
    "How long a pod has waited for the first decision about it", *_POD,
)  # fmt: skip
PLANNED_UNBOUND = _gauge(
    "scheduler", "provisioning_unbound_time_seconds",
    "How long ago a plan first placed a pod that is not bound", *_POD,
)  # fmt: skip
PLANNED_UNSTARTED = _gauge(
    "scheduler", "provisioning_unstarted_time_seconds",
    "How long ago a plan first placed a pod that does not run", *_POD,
)  # fmt: skip
OF_PODS = (STATE, UNSTARTED, UNBOUND, UNDECIDED, PLANNED_UNBOUND, PLANNED_UNSTARTED)


class PodMetrics:
    """Durations until pods are bound and ready: the watcher measures all pods, the scheduler those that it placed."""

    def __init__(self, declare: Declarations) -> None:
        startup = "karpenter_pods_startup_duration_seconds"
        self.pod_startup_seconds = declare.by("watcher").summary(
            startup, "From a pod's creation until it was ready."
        )
        declare.also_as("karpenter_pods_startup_time_seconds", self.pod_startup_seconds, startup)
        self.pod_bound_seconds = declare.by("watcher").histogram(
            "karpenter_pods_bound_duration_seconds",
            "From a pod's creation until it was bound.",
        )
        self.planned_bound_seconds = declare.by("scheduler").histogram(
            "karpenter_pods_provisioning_bound_duration_seconds",
            "From the first plan that placed a pod until it was bound.",
        )
        self.planned_startup_seconds = declare.by("scheduler").histogram(
            "karpenter_pods_provisioning_startup_duration_seconds",
            "From the first plan that placed a pod until it ran.",
        )
