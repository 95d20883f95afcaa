"""Is it well, what does it do, what does it cost."""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.shared_panels import (
    COST,
    DEAD,
    DRAINS,
    FAILED_LAUNCHES,
    LEADERS,
    QUEUES,
    READY,
    UNSCHEDULABLE,
    quantiles,
    rate,
    stat,
)

OVERVIEW = Dashboard(
    "dovetail-overview",
    "Dovetail: overview",
    (
        Row(
            "Now",
            (
                stat("Nodes", "max(karpenter_cluster_state_node_count)"),
                stat("Cost per hour", "sum(karpenter_nodepools_cost_total)", unit="currencyUSD"),
                stat("Pods without a place", "sum(karpenter_scheduler_unschedulable_pods_count)"),
            ),
        ),
        Row("Health", (READY, LEADERS, DEAD)),
        Row(
            "Pods and machines",
            (
                UNSCHEDULABLE,
                Panel(
                    "From a pod's creation until it is bound",
                    quantiles("karpenter_pods_bound_duration_seconds"),
                    "s",
                ),
                Panel(
                    "Machines created and deleted",
                    (
                        rate("karpenter_nodeclaims_created_total", "reason"),
                        rate("karpenter_nodeclaims_disrupted_total", "reason"),
                    ),
                    "cps",
                ),
            ),
        ),
        Row("Cost and capacity", (COST, FAILED_LAUNCHES, DRAINS)),
        Row(
            "Queues and Redis",
            (
                QUEUES,
                Panel(
                    "From a message's writing to its handling, 99 %",
                    (Query("dovetail:queue_wait_seconds:p99", "{{name}}"),),
                    "s",
                ),
                Panel(
                    "Memory of Redis",
                    (
                        Query("max(dovetail_redis_memory_bytes)", "used"),
                        Query("max(dovetail_redis_memory_limit_bytes) > 0", "limit"),
                    ),
                    "bytes",
                ),
            ),
        ),
    ),
)
