"""What the three dashboards show."""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row

RATE = "[$__rate_interval]"
POOL = '{nodepool=~"$nodepool"}'


def stat(
    title: str, expression: str, *, unit: str = "short", legend: str = "", help: str = ""
) -> Panel:
    """The last value."""
    return Panel(title, (Query(expression, legend),), unit, "stat", help)


def rate(metric: str, by: str, labels: str = "") -> Query:
    """Events per second of a counter, one line for each value of ``by``."""
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    return Query(f"sum by ({by}) (rate({metric}{labels}{RATE}))", legend)


def quantiles(metric: str, labels: str = "") -> tuple[Query, ...]:
    """Median and 99th percentile of a histogram."""
    return tuple(
        Query(
            f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{labels}{RATE})))", name
        )
        for share, name in ((0.5, "median"), (0.99, "99 %"))
    )


def summary(metric: str, labels: str = "") -> tuple[Query, ...]:
    """Median and 99th percentile of a summary, over all its series."""
    inner = f", {labels}" if labels else ""
    return tuple(
        Query(f'max({metric}{{quantile="{share}"{inner}}})', name)
        for share, name in (("0.5", "median"), ("0.99", "99 %"))
    )


READY = Panel(
    "Services ready",
    (Query("max by (service) (dovetail_ready)", "{{service}}"),),
    help="1: at least one replica can work. At 0 its /readyz says why not: dovetail status",
)
LEADERS = Panel(
    "Replicas that lead",
    (Query("sum by (name) (leader_election_master_status)", "{{name}}"),),
    help="Watcher and scheduler have one leader each. 0: nothing is watched or planned.",
)
QUEUES = Panel(
    "Messages not yet acknowledged",
    (Query("max by (name) (workqueue_depth)", "{{name}}"),),
)
DEAD = Panel(
    "Dead letters",
    (Query("max by (stream) (dovetail_dead_letters)", "{{stream}}"),),
    help="Messages that no service could handle: dovetail dead-letters list",
)
COST = Panel(
    "Cost of the pools per hour",
    (Query("sum by (nodepool) (karpenter_nodepools_cost_total)", "{{nodepool}}"),),
    "currencyUSD",
    stacked=True,
    help="List or spot price of each machine; machines of unknown price are left out.",
)
FAILED_LAUNCHES = Panel(
    "Failed launches by EC2's error code",
    (rate("karpenter_cloudprovider_instance_launch_failures_total", "reason"),),
    "cps",
)
UNSCHEDULABLE = Panel(
    "Pods that the last plan could not place",
    (
        Query(
            "max by (controller) (karpenter_scheduler_unschedulable_pods_count)", "{{controller}}"
        ),
    ),
    help="dovetail explain pod shows why, and the smallest change that would place it.",
)
DRAINS = Panel(
    "Running drains",
    (Query("max by (node) (dovetail_drain_seconds)", "{{node}}"),),
    "s",
    help="A drain that takes very long is blocked: dovetail explain node",
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

SCHEDULING = Dashboard(
    "dovetail-scheduling",
    "Dovetail: scheduling and cost",
    (
        Row(
            "Pods",
            (
                UNSCHEDULABLE,
                Panel(
                    "Longest time that a pod has waited",
                    (
                        Query("max(karpenter_pods_unbound_time_seconds)", "not bound"),
                        Query(
                            "max(karpenter_pods_provisioning_scheduling_undecided_time_seconds)",
                            "no decision yet",
                        ),
                        Query(
                            "max(karpenter_pods_provisioning_unbound_time_seconds)",
                            "planned, not bound",
                        ),
                    ),
                    "s",
                ),
                Panel(
                    "From a pod's creation until it is ready",
                    summary("karpenter_pods_startup_duration_seconds"),
                    "s",
                ),
            ),
        ),
        Row(
            "Plans",
            (
                Panel(
                    "Duration of one plan",
                    quantiles("karpenter_scheduler_scheduling_duration_seconds"),
                    "s",
                ),
                Panel(
                    "From the first sight of a pod to a decision",
                    quantiles("karpenter_pods_scheduling_decision_duration_seconds"),
                    "s",
                ),
                Panel(
                    "Age of the scheduler's copy of the cluster",
                    (Query("max(karpenter_cluster_state_unsynced_time_seconds)", "not verified"),),
                    "s",
                    help="0 in health. While it grows nothing is planned.",
                ),
            ),
        ),
        Row(
            "Cost",
            (
                COST,
                Panel(
                    "Cost of an allocated core per hour",
                    (Query("dovetail:cost_per_core_dollars_per_hour", "all pools"),),
                    "currencyUSD",
                ),
                Panel(
                    "Requests of pods in percent of what nodes offer",
                    (
                        Query(
                            "max by (resource_type) (karpenter_cluster_utilization_percent)",
                            "{{resource_type}}",
                        ),
                    ),
                    "percent",
                ),
            ),
        ),
        Row(
            "Pools",
            (
                Panel(
                    "Use of the pools' limits",
                    (
                        Query(
                            f"max by (nodepool, resource_type) (karpenter_nodepools_usage{POOL})"
                            f" / (max by (nodepool, resource_type) (karpenter_nodepools_limit{POOL}) > 0)",
                            "{{nodepool}} {{resource_type}}",
                        ),
                    ),
                    "percentunit",
                ),
                Panel(
                    "Nodes by capacity type",
                    (
                        Query(
                            "count by (capacity_type) (karpenter_nodes_current_lifetime_seconds"
                            f"{POOL})",
                            "{{capacity_type}}",
                        ),
                    ),
                    stacked=True,
                ),
                Panel(
                    "Nodes by instance type",
                    (
                        Query(
                            "topk(15, count by (instance_type) (karpenter_nodes_current_lifetime_seconds"
                            f"{POOL}))",
                            "{{instance_type}}",
                        ),
                    ),
                    stacked=True,
                ),
            ),
        ),
        Row(
            "Consolidation",
            (
                Panel(
                    "Commands by method and decision",
                    (
                        rate(
                            "karpenter_voluntary_disruption_decisions_total",
                            "consolidation_type, decision",
                        ),
                    ),
                    "cps",
                ),
                Panel(
                    "Machines that budgets allow to be disrupted",
                    (
                        Query(
                            f"min by (nodepool) (karpenter_nodepools_allowed_disruptions{POOL})",
                            "{{nodepool}}",
                        ),
                    ),
                ),
                Panel(
                    "Duration of one search",
                    quantiles(
                        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
                    ),
                    "s",
                ),
            ),
        ),
    ),
    pools=True,
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

DASHBOARDS = (OVERVIEW, SCHEDULING, INTERRUPTION)
