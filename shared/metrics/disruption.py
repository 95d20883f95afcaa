"""What the scheduler takes away and why not more (MET-05, MET-06, deprovisioning_* of MET-12).

``consolidation_score`` and ``consolidation_moves_total`` are about pools of the policy Balanced alone, as Karpenter's
are: a histogram and a counter of every set of machines that was weighed, those that the search tried on its way too.
"""

from __future__ import annotations

from shared.metrics.declaring import Declarations, Series

_SCORES = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0)


class DisruptionMetrics:
    """Voluntary disruption, in the words of both generations."""

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
            "Disruption commands by the pools whose machines they take.",
            "decision", "reason", "nodepool",
        )  # fmt: skip
        self.disruption_failures = declare.counter(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Replacements that never were ready: their commands were rolled back.",
        )
        self.failed_validations = declare.counter(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Commands that no longer made sense after their delay.",
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
            "Time of one pass of one method.",
            "reason", "consolidation_type",
        )  # fmt: skip
        self.consolidation_timeouts = declare.counter(
            "karpenter_voluntary_disruption_consolidation_timeouts_total",
            "Passes that did not reach every candidate; the next one begins with the others.",
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
            "Moves of Balanced pools' machines that were weighed: approved or rejected.",
            *labels,
        )

    def _declare_budgets(self, declare: Declarations) -> None:
        self.allowed_disruptions = Series(
            declare.gauge(
                "karpenter_nodepools_allowed_disruptions",
                "How many machines the budgets allow to be disrupted at once.",
                "nodepool", "reason",
            )
        )  # fmt: skip
        self.consuming_budgets = Series(
            declare.gauge(
                "karpenter_nodepools_nodes_consuming_budgets",
                "Machines that count against the budgets: down, or on their way out.",
                "nodepool", "reason",
            )
        )  # fmt: skip

    def _declare_deprovisioning(self, declare: Declarations) -> None:
        self.deprovisioning_actions = declare.old_counter(
            "karpenter_deprovisioning_actions_performed",
            "Disruption commands about machines of Provisioners.",
            "action", "deprovisioner",
        )  # fmt: skip
        self.deprovisioning_seconds = declare.histogram(
            "karpenter_deprovisioning_evaluation_duration_seconds",
            "Time of one pass of one method over machines of Provisioners.",
            "deprovisioner",
        )
        self.deprovisioning_eligible = declare.gauge(
            "karpenter_deprovisioning_eligible_machines",
            "Candidates of the last pass that are machines of Provisioners.",
            "deprovisioner",
        )
        self.replacement_seconds = declare.histogram(
            "karpenter_deprovisioning_replacement_machine_initialized_seconds",
            "From the creation of a replacement, a machine of a Provisioner, until it was initialised.",
        )
        self.replacement_failures = declare.old_counter(
            "karpenter_deprovisioning_replacement_machine_launch_failure_counter",
            "Replacements of Provisioners' machines that never were ready.",
            "deprovisioner",
        )
        self.deprovisioning_timeouts = declare.old_counter(
            "karpenter_deprovisioning_consolidation_timeouts",
            "Passes over machines of Provisioners that did not reach every candidate.",
            "consolidation_type",
        )

    def forget_disruption(self) -> None:
        """Another scheduler leads: what this one saw last says nothing any more."""
        self.allowed_disruptions.replace({})
        self.consuming_budgets.replace({})
        self.disruption_eligible.clear()
        self.deprovisioning_eligible.clear()
