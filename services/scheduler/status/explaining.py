"""Puts the explainers of one scheduler together."""

from __future__ import annotations

from collections.abc import Callable

from services.scheduler.disruption.controller import Disruption
from services.scheduler.state.cluster import ClusterState
from services.scheduler.state.decisions import DecisionLog
from services.scheduler.state.plan_inputs import RecentInputs
from services.scheduler.status.explain import Explainer
from services.scheduler.status.explain_cost import CostExplainer
from services.scheduler.status.explain_decision import DecisionExplainer
from services.scheduler.status.explain_pod import PodExplainer
from services.scheduler.status.explain_pool import PoolExplainer
from services.scheduler.status.explain_purchase import Purchases
from shared.runtime.leadership import Leadership
from shared.settings import SchedulerSettings
from shared.solver.solve import SolverSettings


def explainer_of(
    settings: SchedulerSettings,
    cluster: ClusterState,
    options: Callable[[], SolverSettings],
    disruption: Disruption,
    decisions: DecisionLog,
    inputs: RecentInputs,
    leadership: Leadership,
) -> Explainer:
    """What answers ``/explain``. ``options``: of the planner, as they are now."""
    purchases, obstacles = Purchases(cluster, decisions), disruption.actions.obstacles
    return Explainer(
        settings,
        cluster.view,
        disruption.findings,
        disruption.commands,
        disruption.pending,
        PodExplainer(cluster, options, purchases, obstacles),
        CostExplainer(cluster, options),
        DecisionExplainer(inputs),
        PoolExplainer(cluster, options, settings, obstacles),
        purchases,
        lambda: leadership.held,
    )
