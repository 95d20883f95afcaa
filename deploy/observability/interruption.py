"""Notices, drains, AWS, machines that do not come up, the services themselves."""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.shared_panels import (
    DEAD,
    DRAINS,
    FAILED_LAUNCHES,
    LEADERS,
    QUEUES,
    RATE,
    READY,
    quantiles,
    rate,
)

INTERRUPTION = Dashboard(
    "dovetail-interruption",
    "Dovetail: interruption and health",
    (
        Row(
            "Interruptions",
            (
                Panel(
                    "Notices by kind",
                    (rate("karpenter_interruption_received_messages_total", "message_type"),),
                    "cps",
                ),
                Panel(
                    "From the time in a notice until it is handled",
                    quantiles("karpenter_interruption_message_queue_duration_seconds"),
                    "s",
                    help="A spot instance ends two minutes after its notice.",
                ),
                Panel(
                    "Time until the deadline of running drains",
                    (Query("min by (node) (dovetail_drain_deadline_seconds)", "{{node}}"),),
                    "s",
                ),
            ),
        ),
        Row(
            "Drains",
            (
                DRAINS,
                Panel(
                    "Eviction requests by answer",
                    (rate("karpenter_pods_eviction_requests_total", "code"),),
                    "cps",
                    help="429: a PodDisruptionBudget refuses.",
                ),
                Panel(
                    "From the order to delete a machine until it is gone",
                    quantiles("karpenter_nodeclaims_termination_duration_seconds"),
                    "s",
                ),
            ),
        ),
        Row(
            "AWS",
            (
                FAILED_LAUNCHES,
                Panel(
                    "Failed attempts at calls by error code",
                    (rate("karpenter_cloudprovider_errors_total", "method, error"),),
                    "cps",
                ),
                Panel(
                    "Offerings without capacity",
                    (
                        Query(
                            "count by (capacity_type) (karpenter_cloudprovider_instance_type_offering_available == 0)",
                            "{{capacity_type}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Machines that do not come up",
            (
                Panel(
                    "Deleted because no instance or no node came",
                    (
                        rate(
                            "karpenter_nodeclaims_disrupted_total",
                            "reason, nodepool",
                            '{reason=~"launch_timeout|registration_timeout|insufficient_capacity"}',
                        ),
                    ),
                    "cps",
                ),
                Panel(
                    "Longest time for which a machine was not registered or not ready",
                    (
                        Query(
                            "max by (type, reason) (operator_nodeclaim_status_condition_current_status_seconds"
                            '{type=~"Launched|Registered|Initialized", status!="True"})',
                            "{{type}}: {{reason}}",
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "Deletions that the breaker holds",
                    (
                        Query(
                            "max by (nodepool, direction) (dovetail_deletions_held)",
                            "{{nodepool}} {{direction}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Services",
            (
                READY,
                LEADERS,
                Panel("Failures of loops", (rate("dovetail_loop_failures_total", "loop"),), "cps"),
                QUEUES,
                DEAD,
                Panel(
                    "Requests to the API server by status",
                    (rate("client_go_request_total", "code"),),
                    "reqps",
                ),
                Panel(
                    "Entries that the watcher did not write",
                    (Query(f"sum(rate(dovetail_mirror_rejected_total{RATE}))", "rejected"),),
                    "cps",
                ),
                Panel(
                    "Differences between the watcher's picture and fresh lists",
                    (rate("dovetail_watch_differences_total", "kind, direction"),),
                    "cps",
                ),
                Panel(
                    "Spans that the collector did not get",
                    (rate("dovetail_trace_spans_dropped_total", "reason"),),
                    "cps",
                ),
            ),
        ),
    ),
)
