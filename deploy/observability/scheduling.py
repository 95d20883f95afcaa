"""Pods, plans, cost, pools, consolidation."""

from __future__ import annotations

from deploy.observability.panels import Dashboard, Panel, Query, Row
from deploy.observability.shared_panels import COST, POOL, UNSCHEDULABLE, quantiles, rate, summary

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
