"""What disruption needs to know of provisioning, as functions: neither holds the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shared.solver.solve import SolverSettings


@dataclass(frozen=True)
class Provisioning:
    """``nominated``: names of nodes and machines that pods are to run on; ``is_batching``: do pods wait for a plan?
    ``solver_settings``: as the operator chose."""

    nominated: Callable[[], set[str]]
    is_batching: Callable[[], bool]
    solver_settings: Callable[[], SolverSettings]
