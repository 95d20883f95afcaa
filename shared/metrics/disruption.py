"""Disruption: decisions, passes, budgets (MET-05, MET-06, deprovisioning_* of MET-12).

``consolidation_score`` and ``consolidation_moves_total`` only cover pools with the policy Balanced, as in Karpenter.
They include every set of machines that was scored, also the intermediate steps of the search.
"""

from __future__ import annotations

from shared.metrics.declaring import Declarations, Series

_SCORES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0)


class DisruptionMetrics:
    """Voluntary disruption, under the names of both generations."""

    def __init__(self, declare: Declarations) -> None:
        self._declare_decisions(declare)
        self._declare_passes(declare)
        self._declare_consolidation(declare)
        self._declare_budgets(declare)
        self._declare_deprovisioning(declare)

    def _declare_decisions(self, declare: Declarations) -> None:
        self.disruption_decisions = declare.counter(
            "karpenter_voluntary_disruption_decisions_total",
            "Disruption commands.",
            "decision", "reason", "consolidation_type",
        )  # fmt: skip
        self.decisions_by_nodepool = declare.counter(
            "karpenter_voluntary_disruption_decisions_by_nodepool_total",
            "Disruption commands by the pool of their machines.",
            "decision", "reason", "nodepool",
        )  # fmt: skip
        self.disruption_failures = declare.counter(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Replacements that never became ready; their commands were rolled back.",
        )
        self.drift_backoffs = declare.counter(
            "karpenter_voluntary_disruption_drift_backoffs_total",
            "Times that the drifted nodes of a pool were left alone because a replacement failed.",
            "nodepool",
        )
        self.failed_validations = declare.counter(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Commands that were rejected by the validation after their delay.",
            "consolidation_type",
        )

    def _declare_passes(self, declare: Declarations) -> None:
        self.disruption_eligible = declare.gauge(
            "karpenter_voluntary_disruption_eligible_nodes",
            "Candidates of the last pass that are empty, have drifted or may be consolidated.",
            "reason",
        )
        self.disruption_seconds = declare.histogram(
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
            "Duration of one pass of one method.",
            "reason", "consolidation_type",
        )  # fmt: skip
        self.consolidation_timeouts = declare.counter(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Passes that did not reach every candidate; the next pass starts with the remaining ones.",
            "consolidation_type",
        )

    def _declare_consolidation(self, declare: Declarations) -> None:
        labels = ("decision", "nodepool", "policy")
        self.consolidation_score = declare.histogram(
            "karpenter_consolidation_score",
            "Share of a Balanced pool's cost that a move saves, over the share of its disruption that it takes; 10 at "
            "most, 0 for a move that saves nothing; approved from 0.5 on.",
            *labels,
            buckets=_SCORES,
        )
        self.consolidation_moves = declare.counter(
            "karpenter_consolidation_moves_total",
            "Scored moves of machines in Balanced pools: approved or rejected.",
            *labels,
        )

    def _declare_budgets(self, declare: Declarations) -> None:
        self.allowed_disruptions = Series(
            declare.gauge(
                "karpenter_nodepools_allowed_disruptions",
                "Number of machines that the budgets allow to be disrupted at the same time.",
                "nodepool", "reason",
            )
        )  # fmt: skip
        self.consuming_budgets = Series(
            declare.gauge(
                "karpenter_nodepools_nodes_consuming_budgets",
                "Machines that count against the budgets: not ready, or being deleted.",
                "nodepool", "reason",
            )
        )  # fmt: skip

        self.approvals_waiting = Series(
            declare.gauge(
                "dovetail_disruption_approvals_waiting",
                "Disruption commands that wait for an answer, or for their start.",
                "nodepool", "reason",
            )
        )  # fmt: skip

        self.kept_missing = Series(
            declare.gauge(
                "dovetail_nodepools_kept_missing",
                "What a pool is short of its minimum and headroom: nodes, cores of cpu, bytes of memory.",
                "nodepool", "resource_type",
            )
        )  # fmt: skip

    def _declare_deprovisioning(self, declare: Declarations) -> None:
        self.deprovisioning_actions = declare.old_counter(
            "karpenter_deprovisioning_actions_performed",
            "Disruption commands for machines of Provisioners.",
            "action", "deprovisioner",
        )  # fmt: skip
        self.deprovisioning_seconds = declare.histogram(
            "karpenter_deprovisioning_evaluation_duration_seconds",
            "Duration of one pass of one method over machines of Provisioners.",
            "deprovisioner",
        )
        self.deprovisioning_eligible = declare.gauge(
            "karpenter_deprovisioning_eligible_machines",
            "Candidates of the last pass that are machines of Provisioners.",
            "deprovisioner",
        )
        self.replacement_seconds = declare.histogram(
            "karpenter_deprovisioning_replacement_machine_initialized_seconds",
            "From the creation of a Provisioner's replacement machine until it was initialized.",
        )
        self.replacement_failures = declare.old_counter(
            "karpenter_deprovisioning_replacement_machine_launch_failure_counter",
            "Replacements of Provisioners' machines that never became ready.",
            "deprovisioner",
        )
        self.deprovisioning_timeouts = declare.old_counter(
            "karpenter_deprovisioning_consolidation_timeouts",
            "Passes over machines of Provisioners that did not reach every candidate.",
            "consolidation_type",
        )

    def forget_disruption(self) -> None:
        """Removes the values of the last pass, because another scheduler leads now."""
        self.allowed_disruptions.replace({})
        self.consuming_budgets.replace({})
        self.kept_missing.replace({})
        self.approvals_waiting.replace({})
        self.disruption_eligible.clear()
        self.deprovisioning_eligible.clear()
