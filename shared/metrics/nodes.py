"""Registration, drain and deletion of nodes, and evictions (MET-03, MET-04, nodes_* of MET-12)."""

from __future__ import annotations

from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.metrics.declaring import Declarations

_LIFETIMES = (60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)


class NodeMetrics:
    """Events of nodes; gauges of their current state are in ``shared.metrics.cluster``."""

    def __init__(self, declare: Declarations) -> None:
        self._declare_nodes(declare.by("terminator"))
        self._declare_old_names(declare.by("terminator"))
        self._declare_pods(declare.by("terminator"))

    def _declare_nodes(self, declare: Declarations) -> None:
        self.nodes_created = declare.by("launcher").counter(
            "karpenter_nodes_created_total",
            "Nodes that were registered.",
            "nodepool", "zone",
        )  # fmt: skip
        self.nodes_terminated = declare.counter(
            "karpenter_nodes_terminated_total",
            "Nodes whose deletion is complete.",
            "nodepool", "zone",
        )  # fmt: skip
        self.nodes_drained = declare.counter(
            "karpenter_nodes_drained_total",
            "Nodes that were drained.",
            "nodepool",
        )
        self.node_termination_seconds = declare.summary(
            "karpenter_nodes_termination_duration_seconds",
            "From the request to delete a node until its deletion is complete.",
            "nodepool",
        )
        self.node_lifetime_seconds = declare.histogram(
            "karpenter_nodes_lifetime_duration_seconds",
            "Age of nodes when they are deleted.",
            "nodepool",
            buckets=_LIFETIMES,
        )
        self.drain_seconds = declare.gauge(
            "dovetail_drain_seconds",
            "Duration of a running drain; a drain that takes very long is blocked.",
            "node",
        )
        self.drain_deadline_seconds = declare.gauge(
            "dovetail_drain_deadline_seconds",
            "Time until the deadline of a running drain; at 0 its pods are deleted without a budget's consent.",
            "node",
        )

    def _declare_old_names(self, declare: Declarations) -> None:
        self._old_created = declare.by("launcher").old_counter(
            "karpenter_nodes_created",
            "Nodes of Provisioners that were registered.",
            "provisioner",
        )
        self._old_terminated = declare.old_counter(
            "karpenter_nodes_terminated",
            "Nodes of Provisioners whose deletion is complete.",
            "provisioner",
        )
        self._old_termination_seconds = declare.summary(
            "karpenter_nodes_termination_time_seconds",
            "From the request to delete a Provisioner's node until its deletion is complete.",
            "provisioner",
        )

    def _declare_pods(self, declare: Declarations) -> None:
        self.evictions = declare.counter(
            "karpenter_pods_eviction_requests_total",
            "Requests to the Eviction API, by status code of the answer.",
            "code",
        )
        self.pods_drained = declare.counter(
            "karpenter_pods_drained_total",
            "Pods that a drain evicted or deleted, by the reason of the drain.",
            "reason",
        )
        self.pods_disrupted = declare.by("scheduler").counter(
            "karpenter_pods_disruption_initiated_total",
            "Pods that must move because a command deletes their machine.",
            "reason",
        )

    def count_registered(self, machine: Machine) -> None:
        """MET-03, MET-12: the machine's node is registered."""
        self.nodes_created.labels(machine.pool, machine.zone).inc()
        if machine.api.older_names:
            self._old_created.labels(machine.pool).inc()

    def count_gone(self, node: Node, *, seconds: float, lifetime: float) -> None:
        """MET-03, MET-12. ``seconds``: since its deletion was ordered; ``lifetime``: its age in seconds."""
        self.nodes_terminated.labels(node.pool, node.labels.get(keys.ZONE, "")).inc()
        self.node_termination_seconds.labels(node.pool).observe(seconds)
        self.node_lifetime_seconds.labels(node.pool).observe(lifetime)
        if node.labels.get(keys.PROVISIONER_NAME):
            self._old_terminated.labels(node.pool).inc()
            self._old_termination_seconds.labels(node.pool).observe(seconds)
