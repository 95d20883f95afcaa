"""A higher effort never makes a plan dearer, nor its bound lower."""

from __future__ import annotations

import pytest

from bench.inputs import workloads
from shared.solver.solve import SolverSettings, solve

EFFORTS = (1, 60, 200, 300)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3])
def test_more_effort_never_costs_more(seed: int) -> None:
    given = workloads.snapshot(workloads.karpenter_mix(40, seed), workloads.karpenter_types(30))
    plans = [
        solve(
            given,
            now=0.0,
            settings=SolverSettings(packing_policy="LowestCost", effort=effort),
        )
        for effort in EFFORTS
    ]
    costs = [plan.cost_micro_usd_per_hour for plan in plans]
    assert costs == sorted(costs, reverse=True)
    bounds = [plan.lower_bound_micro_usd_per_hour or 0 for plan in plans]
    assert 0 < bounds[0] < bounds[-1]
    assert bounds == sorted(bounds)
