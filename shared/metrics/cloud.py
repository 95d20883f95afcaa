"""Calls to AWS and interruption notices (MET-09, MET-10, interruption_* of MET-12)."""

from __future__ import annotations

from shared.metrics.declaring import GAUGE, Declarations, Declared

_CALLERS = "interruption, launcher, terminator"
DEADLINES = Declared(
    "dovetail_interruption_deadline_seconds",
    GAUGE,
    "Time until EC2 ends the instance of a machine that still exists; below 0: past. The latest 100 notices.",
    ("machine", "node", "kind"),
    ("interruption",),
)


class CloudMetrics:
    """Launches, the interruption queue, termination lifecycle hooks."""

    def __init__(self, declare: Declarations, service: str) -> None:
        self._service = service
        self._declare_calls(declare.by(_CALLERS))
        self._declare_ec2(declare)
        self._declare_queue(declare.by("interruption"))

    def _declare_calls(self, declare: Declarations) -> None:
        labels = ("controller", "method", "provider")
        self.call_seconds = declare.histogram(
            "karpenter_cloudprovider_duration_seconds",
            "Duration of one AWS call, by service and operation.",
            *labels,
        )
        self.call_errors = declare.counter(
            "karpenter_cloudprovider_errors_total",
            "Failed attempts at AWS calls, by AWS error code.",
            *labels, "error",
        )  # fmt: skip

    def _declare_ec2(self, declare: Declarations) -> None:
        self.launch_failures = declare.by("launcher").counter(
            "karpenter_cloudprovider_instance_launch_failures_total",
            "Failed launches by zone, capacity type and EC2 error code.",
            "zone", "zone_id", "capacity_type", "reason",
        )  # fmt: skip
        self.termination_failures = declare.by("terminator").counter(
            "karpenter_cloudprovider_instance_termination_failures_total",
            "Failed requests to terminate an instance; each is repeated.",
            "zone", "zone_id",
        )  # fmt: skip
        self.instances_unhealthy = declare.by("interruption").counter(
            "karpenter_interruption_instance_status_unhealthy_total",
            "Instances of the cluster that fail a status check or have a scheduled event.",
            "category",
        )
        self.lifecycle_actions = declare.by("interruption").counter(
            "dovetail_lifecycle_actions_total",
            "Actions on termination lifecycle hooks: taken, heartbeat, continue, over, failed.",
            "result",
        )

    def _declare_queue(self, declare: Declarations) -> None:
        received = "karpenter_interruption_received_messages_total"
        deleted = "karpenter_interruption_deleted_messages_total"
        late = "karpenter_interruption_message_queue_duration_seconds"
        self.interruptions_received = declare.counter(received, "Notices by kind.", "message_type")
        self.interruptions_deleted = declare.counter(
            deleted, "SQS messages deleted after handling."
        )
        self.interruption_seconds = declare.histogram(
            late,
            "From the time in a notice until its handling is complete.",
        )
        self._actions = declare.old_counter(
            "karpenter_interruption_actions_performed",
            "Notices by action: CordonAndDrain when the machine is deleted, else NoAction.",
            "action",
        )
        prefix = "karpenter_interruption"
        declare.also_as(f"{prefix}_received_messages", self.interruptions_received, received)
        declare.also_as(f"{prefix}_deleted_messages", self.interruptions_deleted, deleted)
        declare.also_as(f"{prefix}_message_latency_time_seconds", self.interruption_seconds, late)

    def count_call(self, method: str, seconds: float, error: str) -> None:
        """MET-10: counts one attempt. ``error``: AWS's error code; empty after a success."""
        labels = (self._service, method, "aws")
        self.call_seconds.labels(*labels).observe(seconds)
        if error:
            self.call_errors.labels(*labels, error).inc()

    def count_action(self, *, drains: bool) -> None:
        """MET-12: counts the action on a notice. ``drains``: False when it was only reported."""
        self._actions.labels("CordonAndDrain" if drains else "NoAction").inc()
