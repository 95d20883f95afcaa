"""Durations of plans and decisions, pods without a place, records of decisions (MET-04, MET-07, and of MET-12)."""

from __future__ import annotations

from shared.metrics.declaring import Declarations

PROVISIONER = "provisioner"
"""Karpenter's name of the controller that plans for pods."""


class SchedulingMetrics:
    """Rounds of the planner."""

    def __init__(self, declare: Declarations) -> None:
        self.scheduling_seconds = declare.histogram(
            "karpenter_scheduler_scheduling_duration_seconds",
            "Duration of one plan computation.",
            "controller",
        )
        declare.also_as(
            "karpenter_provisioner_scheduling_duration_seconds",
            self.scheduling_seconds,
            "karpenter_scheduler_scheduling_duration_seconds",
        )
        self.decision_seconds = declare.histogram(
            "karpenter_pods_scheduling_decision_duration_seconds",
            "From when a pending pod was first seen until the first decision about it.",
        )
        self.unschedulable_pods = declare.gauge(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods that the last plan could not place.",
            "controller",
        )
        self.ignored_pods = declare.gauge(
            "karpenter_scheduler_ignored_pods_count",
            "Pods with invalid fields.",
        )
        self.policy_cost = declare.gauge(
            "dovetail_policy_cost_dollars_per_hour",
            "What new machines for all pods of managed nodes would cost by each packing policy.",
            "policy",
        )

        self.capacity_buffer_pods = declare.gauge(
            "dovetail_capacity_buffer_pods",
            "Pods of a CapacityBuffer by what the last plan found: ready (a running node has room), starting (their "
            "machine starts), unplaced.",
            "namespace",
            "name",
            "state",
        )

    def forget_plans(self) -> None:
        """Removes the values of the last plan, because another scheduler leads now."""
        self.unschedulable_pods.clear()
        self.policy_cost.clear()
        self.ignored_pods.set(0)
        self.capacity_buffer_pods.clear()


class RecordMetrics:
    """What is kept of decisions."""

    def __init__(self, declare: Declarations) -> None:
        self.decision_records = declare.counter(
            "dovetail_decision_records_total", "Rounds of the scheduler that were recorded."
        )
        self.decision_record_bytes = declare.counter(
            "dovetail_decision_record_bytes_total", "Compressed bytes written to the archive."
        )
        self.decision_record_failures = declare.counter(
            "dovetail_decision_record_failures_total", "Writes to the archive that failed."
        )
        self.decision_records_lost = declare.counter(
            "dovetail_decision_records_lost_total",
            "Changes, records and documents that were lost: the archive was away or full for too long.",
        )
        self.archive_bytes = declare.gauge(
            "dovetail_archive_bytes", "Size of the archive when old records were last deleted."
        )
