"""What a plan goes by: the scheduler's settings, and how long things are assumed to take."""

from __future__ import annotations

from typing import NamedTuple

from shared.disruption.global_consolidation.churn import Churn
from shared.domain.feature_gates import FeatureGates
from shared.solver.solve import SolverSettings


class Timing(NamedTuple):
    """What is assumed, in seconds."""

    join: float = 60.0
    """From the launch of an instance to its ready node."""
    drain: float = 30.0
    """From the first eviction to the end of the instance."""
    validation: float = 15.0
    """VALIDATION_DELAY of the scheduler."""
    horizon: float = 7 * 24 * 3600.0
    """How long the cluster is watched."""


class Rules(NamedTuple):
    """Settings of the scheduler."""

    solver: SolverSettings = SolverSettings()
    consolidation: str = "Karpenter"
    gates: FeatureGates = FeatureGates()
    churn: Churn = Churn()
