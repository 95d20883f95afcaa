"""What the queries of Karpenter's published Grafana dashboards ask for: names of samples and of their labels.

Written down from the dashboards of v1 and of v0.31. Not here: ``cluster`` and ``job``, which Prometheus adds, metrics
of node-exporter, and what was gone before v0.31 (the dashboard "Controllers / Allocation" asks for nothing else).
"""

from __future__ import annotations

from typing import NamedTuple


class Query(NamedTuple):
    """One sample name that a panel, or a variable, asks for."""

    dashboard: str
    panel: str
    name: str
    labels: tuple[str, ...] = ()


CAPACITY, PERFORMANCE = "Karpenter Capacity", "Karpenter Performance"
OLD_CAPACITY, OLD_PERFORMANCE = "Karpenter Capacity (v0.31)", "Karpenter Performance (v0.31)"
CONTROLLERS = "Controllers"
_NODE = ("arch", "capacity_type", "instance_type", "nodepool", "zone")
_OLD_NODE = ("arch", "capacity_type", "instance_type", "provisioner", "zone")
_QUANTILE = ("quantile",)

QUERIES = (
    Query(CAPACITY, "Nodes Created", "karpenter_nodes_created_total", ("nodepool",)),
    Query(CAPACITY, "Nodes Terminated", "karpenter_nodes_terminated_total", ("nodepool",)),
    Query(
        CAPACITY, "Nodes Eligible for Disruptions",
        "karpenter_voluntary_disruption_eligible_nodes", ("reason",),
    ),
    Query(CAPACITY, "Node Disruptions", "karpenter_nodeclaims_disrupted_total", ("nodepool",)),
    Query(
        CAPACITY, "Disruption Actions",
        "karpenter_voluntary_disruption_decisions_total", ("consolidation_type", "decision"),
    ),
    Query(
        CAPACITY, "Pod Distribution", "karpenter_pods_state",
        ("arch", "capacity_type", "instance_type", "namespace", "node", "nodepool", "zone"),
    ),
    Query(CAPACITY, "Pod Phase", "karpenter_pods_state", ("phase",)),
    Query(CAPACITY, "Nodepool Summary", "karpenter_nodepools_usage", ("nodepool", "resource_type")),
    Query(CAPACITY, "Nodepool Summary", "karpenter_nodepools_limit", ("nodepool", "resource_type")),
    Query(CAPACITY, "Spot Node Percentage", "karpenter_nodes_allocatable", _NODE),
    Query(
        CAPACITY, "Node Summary", "karpenter_nodes_allocatable",
        (
            *_NODE, "node_name", "resource_type", "os", "instance_category", "instance_cpu",
            "instance_family", "instance_generation", "instance_hypervisor", "instance_memory",
            "instance_size",
        ),
    ),
    Query(
        CAPACITY, "Node Summary", "karpenter_nodes_total_daemon_requests",
        (*_NODE, "node_name", "resource_type"),
    ),
    Query(
        CAPACITY, "Node Summary", "karpenter_nodes_total_pod_requests",
        (*_NODE, "node_name", "resource_type"),
    ),
    Query(
        PERFORMANCE, "Node Termination Latency",
        "karpenter_nodes_termination_duration_seconds", _QUANTILE,
    ),
    Query(
        PERFORMANCE, "Pod Startup Latency", "karpenter_pods_startup_duration_seconds", _QUANTILE
    ),
    Query(
        PERFORMANCE, "Controller Reconciliation Latency",
        "controller_runtime_reconcile_time_seconds_bucket", ("controller", "le"),
    ),
    Query(
        PERFORMANCE, "Controller Reconciliation Rate",
        "controller_runtime_reconcile_total", ("controller",),
    ),
    Query(
        PERFORMANCE, "variable controller",
        "controller_runtime_reconcile_time_seconds_count", ("controller",),
    ),
    Query(CONTROLLERS, "Items in Work Queue", "workqueue_depth", ("name",)),
    Query(
        CONTROLLERS, "Reconciliations per minute",
        "controller_runtime_reconcile_total", ("controller", "result"),
    ),
    Query(
        CONTROLLERS, "Reconciliation duration",
        "controller_runtime_reconcile_time_seconds_bucket", ("controller", "le"),
    ),
    Query(
        CONTROLLERS, "variable controller",
        "controller_runtime_reconcile_errors_total", ("controller",),
    ),
    Query(
        OLD_CAPACITY, "Deprovisioning Actions Performed",
        "karpenter_deprovisioning_actions_performed", ("action",),
    ),
    Query(OLD_CAPACITY, "Nodes Created", "karpenter_nodes_created", ("provisioner",)),
    Query(OLD_CAPACITY, "Nodes Terminated", "karpenter_nodes_terminated", ("provisioner",)),
    Query(
        OLD_CAPACITY, "Pod Distribution", "karpenter_pods_state",
        ("arch", "capacity_type", "instance_type", "namespace", "node", "provisioner", "zone"),
    ),
    Query(
        OLD_CAPACITY, "Provisioner Summary", "karpenter_provisioner_usage",
        ("provisioner", "resource_type"),
    ),
    Query(
        OLD_CAPACITY, "Provisioner Summary", "karpenter_provisioner_limit",
        ("provisioner", "resource_type"),
    ),
    Query(
        OLD_CAPACITY, "Node Summary", "karpenter_nodes_allocatable",
        (*_OLD_NODE, "node_name", "resource_type"),
    ),
    Query(
        OLD_PERFORMANCE, "Node Termination Latency",
        "karpenter_nodes_termination_time_seconds", _QUANTILE,
    ),
    Query(
        OLD_PERFORMANCE, "Pod Startup Latency", "karpenter_pods_startup_time_seconds", _QUANTILE
    ),
)  # fmt: skip
