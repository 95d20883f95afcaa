"""Every metric of the product in one catalogue. Where Karpenter has the metric, its name is kept (area 9.4)."""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from shared.domain.nodepools import V1ALPHA5

GRACEFUL, EVENTUAL, FORCEFUL = "graceful", "eventual", "forceful"
"""MET-02, how a machine ends: within its pool's budgets only; within them, but its pods may be ended; at once."""
MACHINE_EVENTS = ("created", "terminated", "launched", "registered", "initialized", "disrupted")


class Counted(Protocol):
    """A machine, as far as it is counted."""

    @property
    def pool(self) -> str: ...
    @property
    def capacity_type(self) -> str: ...
    @property
    def generation_api(self) -> str: ...


_LIFETIMES = (60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """One service's metrics in a registry of its own: five services may share a process."""

    def __init__(self, service: str) -> None:
        self.registry = registry = CollectorRegistry(auto_describe=True)
        build = Gauge(
            "karpenter_build_info", "Constant 1.", ["service", "version"], registry=registry
        )
        build.labels(service, "0.1.0").set(1)
        self.loop_failures = Counter(
            "dovetail_loop_failures_total",
            "Times a supervised loop ended with an error.",
            ["loop"],
            registry=registry,
        )
        self.resync_found_work = Counter(
            "dovetail_resync_found_work_total",
            "Work that only the timed listing found: what the streams lost. About zero in health.",
            ["loop"],
            registry=registry,
        )
        self.machines_created = Counter(
            "karpenter_nodeclaims_created_total",
            "Machines created (MET-01).",
            ["reason", "nodepool", "min_values_relaxed"],
            registry=registry,
        )
        self.machines_terminated = Counter(
            "karpenter_nodeclaims_terminated_total",
            "Machines that are gone (MET-01).",
            ["nodepool", "capacity_type", "zone"],
            registry=registry,
        )
        self.machines_disrupted = Counter(
            "karpenter_nodeclaims_disrupted_total",
            "Machines that were ordered away (MET-01).",
            ["reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode"],
            registry=registry,
        )
        self.machines_drifted = Counter(
            "karpenter_machines_drifted_total",
            "Machines that were found to be outdated, by reason (MET-12, DRF-03).",
            ["reason", "nodepool"],
            registry=registry,
        )
        self.scheduling_seconds = Histogram(
            "karpenter_scheduler_scheduling_duration_seconds",
            "Time of one solve (MET-07).",
            buckets=_SECONDS,
            registry=registry,
        )
        self.unschedulable_pods = Gauge(
            "karpenter_scheduler_unschedulable_pods_count",
            "Pods that the last plan could not place (MET-07).",
            registry=registry,
        )
        self.ignored_pods = Gauge(
            "karpenter_scheduler_ignored_pods_count",
            "Pods whose own text is faulty (POD-03).",
            registry=registry,
        )
        self._count_effects(registry)
        self._count_lifecycle(registry)
        self._count_disruption(registry)
        self._count_terminations(registry)

    def count_created(
        self, reason: str, pool: str, generation_api: str, *, relaxed: bool = False
    ) -> None:
        """MET-01, MET-12: a machine was written. ``relaxed``: of fewer kinds than its pool asks for."""
        self.machines_created.labels(reason, pool, str(relaxed).lower()).inc()
        if generation_api == V1ALPHA5:
            self._of_machines["created"].labels(reason, pool).inc()

    def count_disrupted(
        self, machine: Counted, reason: str, mode: str = FORCEFUL, *, policy: str = ""
    ) -> None:
        """MET-01, MET-02, MET-12: it was ordered away. ``policy``: its pool's word on consolidation, if that counts."""
        self.machines_disrupted.labels(
            reason, machine.pool, machine.capacity_type, policy, mode
        ).inc()
        if machine.generation_api == V1ALPHA5:
            self._of_machines["disrupted"].labels(reason, machine.pool).inc()

    def count_event(self, machine: Counted, event: str) -> None:
        """MET-12: terminated, launched, registered or initialized; other metrics say it of NodeClaims."""
        if machine.generation_api == V1ALPHA5:
            self._of_machines[event].labels(machine.pool).inc()

    def _count_terminations(self, registry: CollectorRegistry) -> None:
        """How nodes end (MET-01, MET-03, TRM-14)."""
        by_pool = ["nodepool"]
        self.nodes_terminated = Counter(
            "karpenter_nodes_terminated_total",
            "Nodes that are gone (MET-03).",
            ["nodepool", "zone"],
            registry=registry,
        )
        self.nodes_drained = Counter(
            "karpenter_nodes_drained_total",
            "Nodes that were drained (MET-03).",
            by_pool,
            registry=registry,
        )
        self.node_termination_seconds = Histogram(
            "karpenter_nodes_termination_duration_seconds",
            "From the first look at a node that goes to its end.",
            by_pool,
            buckets=_SECONDS,
            registry=registry,
        )
        self.machine_termination_seconds = Histogram(
            "karpenter_nodeclaims_termination_duration_seconds",
            "From the first look at a machine that goes to its end.",
            by_pool,
            buckets=_SECONDS,
            registry=registry,
        )
        self.instance_termination_seconds = Histogram(
            "karpenter_nodeclaims_instance_termination_duration_seconds",
            "From the order to terminate an instance until EC2 says that it is gone (TRM-14).",
            by_pool,
            buckets=_SECONDS,
            registry=registry,
        )
        self.node_lifetime_seconds = Histogram(
            "karpenter_nodes_lifetime_duration_seconds",
            "Age of nodes at their end.",
            by_pool,
            buckets=_LIFETIMES,
            registry=registry,
        )
        self.drain_seconds = Gauge(
            "dovetail_drain_seconds",
            "How long a node has been drained already; one that grows for long is blocked (F22).",
            ["node"],
            registry=registry,
        )
        self.unhealthy_disrupted = Counter(
            "karpenter_nodeclaims_unhealthy_disrupted_total",
            "Machines that node repair ended (TRM-22).",
            ["condition", "nodepool", "capacity_type", "image_id"],
            registry=registry,
        )

    def _count_disruption(self, registry: CollectorRegistry) -> None:
        """What the scheduler takes away and why not more (MET-05, MET-06)."""
        self.disruption_decisions = Counter(
            "karpenter_voluntary_disruption_decisions_total",
            "Disruption commands.",
            ["decision", "reason", "consolidation_type"],
            registry=registry,
        )
        self.disruption_eligible = Gauge(
            "karpenter_voluntary_disruption_eligible_nodes",
            "Candidates of the last pass that are empty, have drifted or may be consolidated (MET-06).",
            ["reason"],
            registry=registry,
        )
        self.disruption_seconds = Histogram(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            "Time of one pass of one method.",
            ["consolidation_type"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.disruption_failures = Counter(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Replacements that never were ready: their commands were rolled back.",
            registry=registry,
        )
        self.failed_validations = Counter(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Commands that no longer made sense after their delay.",
            ["consolidation_type"],
            registry=registry,
        )
        self.decisions_by_nodepool = Counter(
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            "Disruption commands by the pools whose machines they take (MET-06).",
            ["decision", "reason", "nodepool"],
            registry=registry,
        )
        self.consolidation_timeouts = Counter(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Passes that did not reach every candidate; the next one begins with the others (CON-10).",
            ["consolidation_type"],
            registry=registry,
        )
        self.allowed_disruptions = Gauge(
            "karpenter_nodepools_allowed_disruptions",
            "How many more machines the budgets allow to be disrupted now.",
            ["nodepool", "reason"],
            registry=registry,
        )
        self.consuming_budgets = Gauge(
            "karpenter_nodepools_nodes_consuming_budgets",
            "Machines that count against the budgets: down, or on their way out (DIS-24, DIS-25).",
            ["nodepool", "reason"],
            registry=registry,
        )
        self.pods_disrupted = Counter(
            "karpenter_pods_disruption_initiated_total",
            "Pods that have to move because a command deletes their machine (EXE-06).",
            ["reason"],
            registry=registry,
        )

    def _count_lifecycle(self, registry: CollectorRegistry) -> None:
        """What became of machines between launch and end."""
        self._of_machines = {
            event: Gauge(
                f"karpenter_machines_{event}",
                f"Machines of Provisioners {event}, under the name of v0.31; only grows (MET-12).",
                ["reason", "provisioner"] if event in ("created", "disrupted") else ["provisioner"],
                registry=registry,
            )
            for event in MACHINE_EVENTS
        }
        self.nodes_created = Counter(
            "karpenter_nodes_created_total",
            "Nodes that were registered (MET-03).",
            ["nodepool", "zone"],
            registry=registry,
        )
        self.consistency_errors = Counter(
            "karpenter_consistency_errors_total",
            "Nodes with less of a resource than their machine says, seen again at each check (LCH-82).",
            ["check"],
            registry=registry,
        )
        self.deletions_held = Gauge(
            "dovetail_deletions_held",
            "Deletions that the breaker holds back because a list looks wrong (F23); above 0: look.",
            ["direction", "nodepool"],
            registry=registry,
        )

    def _count_effects(self, registry: CollectorRegistry) -> None:
        """What was done to EC2, to pods and to the queue."""
        self.launch_failures = Counter(
            "karpenter_cloudprovider_instance_launch_failures_total",
            "Failed launches by zone, capacity type and EC2 code (MET-10).",
            ["zone", "capacity_type", "reason"],
            registry=registry,
        )
        self.evictions = Counter(
            "karpenter_pods_eviction_requests_total",
            "Eviction calls by answer code (MET-04).",
            ["code"],
            registry=registry,
        )
        self.pods_drained = Counter(
            "karpenter_pods_drained_total",
            "Pods that a drain evicted or deleted, by why their node goes (MET-04).",
            ["reason"],
            registry=registry,
        )
        self.interruptions_received = Counter(
            "karpenter_interruption_received_messages_total",
            "SQS messages by kind (MET-09).",
            ["message_type"],
            registry=registry,
        )
        self.interruptions_deleted = Counter(
            "karpenter_interruption_deleted_messages_total",
            "SQS messages deleted after handling (MET-09).",
            registry=registry,
        )
        self.interruption_seconds = Histogram(
            "karpenter_interruption_message_queue_duration_seconds",
            "From what EC2 wrote into a notice as its time to the end of its handling (INT-24, MET-09).",
            buckets=_SECONDS,
            registry=registry,
        )
        self.instances_unhealthy = Counter(
            "karpenter_interruption_instance_status_unhealthy_total",
            "Instances of ours that fail a status check or have an event scheduled (INT-31).",
            ["category"],
            registry=registry,
        )
        self.lifecycle_actions = Counter(
            "dovetail_lifecycle_actions_total",
            "Termination lifecycle hooks by what was done: taken, heartbeat, continue, over, failed (INT-41).",
            ["result"],
            registry=registry,
        )
