"""How long plans and decisions take and what cannot be placed (MET-04, MET-07, provisioner_scheduling_* of MET-12)."""

from __future__ import annotations

from shared.metrics.declaring import Declarations

PROVISIONER = "provisioner"
"""The controller that plans for pods, in Karpenter's words."""


class SchedulingMetrics:
    """Rounds of the planner."""

    def __init__(self, declare: Declarations) -> None:
        self.scheduling_seconds = declare.histogram(
            "karpenter_scheduler_scheduling_duration_seconds",
            "Time of one solve.",
            "controller",
        )
        declare.also_as(
            "karpenter_provisioner_scheduling_duration_seconds",
            self.scheduling_seconds,
            "karpenter_scheduler_scheduling_duration_seconds",
        )
        self.decision_seconds = declare.histogram(
            "karpenter_pods_scheduling_decision_duration_seconds",
            "From the first sight of a waiting pod to the first decision about it.",
        )
        self.unschedulable_pods = declare.gauge(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods that the last plan could not place.",
            "controller",
        )
        self.ignored_pods = declare.gauge(
            "karpenter_scheduler_ignored_pods_count",
            "Pods whose own text is faulty.",
        )

    def forget_plans(self) -> None:
        """Another scheduler leads."""
        self.unschedulable_pods.clear()
        self.ignored_pods.set(0)
