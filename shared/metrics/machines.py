"""Creation, drift, disruption and deletion of machines (MET-01, MET-02, machines_* of MET-12)."""

from __future__ import annotations

from typing import Protocol

from shared.domain.pools.generations import Generation
from shared.metrics.declaring import Declarations

GRACEFUL, EVENTUAL, FORCEFUL = "graceful", "eventual", "forceful"
"""MET-02, the mode of a deletion: within the pool's budgets; within them, but pods may be deleted after the grace
period; immediately."""
MACHINE_EVENTS = (
    "created",
    "terminated",
    "launched",
    "registered",
    "initialized",
    "disrupted",
    "drifted",
)
_WITH_REASON = ("created", "disrupted", "drifted")
_WRITERS = {
    "created": "scheduler",
    "terminated": "terminator",
    "disrupted": "interruption, launcher, scheduler, terminator",
}


class Counted(Protocol):
    """The properties of a machine that its metrics need."""

    @property
    def pool(self) -> str: ...
    @property
    def capacity_type(self) -> str: ...
    @property
    def api(self) -> Generation: ...


class MachineMetrics:
    """NodeClaims and Machines; Machines count under both names."""

    def __init__(self, declare: Declarations) -> None:
        self._declare_machines(declare)
        self._declare_ends(declare.by("terminator"))
        self._of_machines = {
            event: declare.by(_WRITERS.get(event, "launcher")).old_counter(
                f"karpenter_machines_{event}",
                f"Machines of Provisioners {event}.",
                *(["reason", "provisioner"] if event in _WITH_REASON else ["provisioner"]),
            )
            for event in MACHINE_EVENTS
        }

    def _declare_machines(self, declare: Declarations) -> None:
        self.machines_created = declare.by("scheduler").counter(
            "karpenter_nodeclaims_created_total",
            "Machines created.",
            "reason", "nodepool", "min_values_relaxed",
        )  # fmt: skip
        self.machines_terminated = declare.by("terminator").counter(
            "karpenter_nodeclaims_terminated_total",
            "Machines whose deletion is complete.",
            "nodepool", "capacity_type", "zone",
        )  # fmt: skip
        self.machines_disrupted = declare.by("interruption, launcher, scheduler, terminator").counter(
            "karpenter_nodeclaims_disrupted_total",
            "Machines whose deletion was requested.",
            "reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode",
        )  # fmt: skip
        self.machines_drifted = declare.by("launcher").counter(
            "karpenter_machines_drifted_total",
            "Machines for which drift was detected, by reason.",
            "reason", "nodepool",
        )  # fmt: skip
        self.consistency_errors = declare.by("launcher").counter(
            "karpenter_consistency_errors_total",
            "Nodes with less of a resource than their machine's status; counted at each check.",
            "check",
        )
        declare.also_as(
            "karpenter_consistency_errors",
            self.consistency_errors,
            "karpenter_consistency_errors_total",
        )
        self.deletions_held = declare.by("launcher").gauge(
            "dovetail_deletions_held",
            "Deletions held back: a list seems incomplete, or an instance lacks the cluster's tag; check when above 0.",
            "direction", "nodepool",
        )  # fmt: skip
        self.unmatched = declare.by("launcher").gauge(
            "dovetail_unmatched_objects",
            "Objects for which a promise of dovetail audit did not hold in the launcher's last sweep.",
            "promise",
        )

    def _declare_ends(self, declare: Declarations) -> None:
        self.machine_termination_seconds = declare.histogram(
            "karpenter_nodeclaims_termination_duration_seconds",
            "From the request to delete a machine until its deletion is complete.",
            "nodepool",
        )
        self.instance_termination_seconds = declare.histogram(
            "karpenter_nodeclaims_instance_termination_duration_seconds",
            "From the request to terminate an instance until EC2 reports it as terminated.",
            "nodepool",
        )
        self.unhealthy_disrupted = declare.counter(
            "karpenter_nodeclaims_unhealthy_disrupted_total",
            "Machines that node repair deleted.",
            "condition", "nodepool", "capacity_type", "image_id",
        )  # fmt: skip

    def count_created(
        self, reason: str, pool: str, api: Generation, *, relaxed: bool = False
    ) -> None:
        """MET-01, MET-12: a machine was created. ``relaxed``: with fewer distinct values than minValues of its pool."""
        self.machines_created.labels(reason, pool, str(relaxed).lower()).inc()
        if api.older_names:
            self._of_machines["created"].labels(reason, pool).inc()

    def count_disrupted(
        self, machine: Counted, reason: str, mode: str = FORCEFUL, *, policy: str = ""
    ) -> None:
        """MET-01, MET-02, MET-12: its deletion was requested. ``policy``: the pool's consolidation policy, after a
        consolidation."""
        self.machines_disrupted.labels(
            reason, machine.pool, machine.capacity_type, policy, mode
        ).inc()
        if machine.api.older_names:
            self._of_machines["disrupted"].labels(reason, machine.pool).inc()

    def count_drifted(self, machine: Counted, reason: str) -> None:
        """MET-12, DRF-03: drift was detected."""
        self.machines_drifted.labels(reason, machine.pool).inc()
        if machine.api.older_names:
            self._of_machines["drifted"].labels(reason, machine.pool).inc()

    def count_event(self, machine: Counted, event: str) -> None:
        """MET-12: counts terminated, launched, registered or initialized; NodeClaims have other metrics for these."""
        if machine.api.older_names:
            self._of_machines[event].labels(machine.pool).inc()
