"""A higher effort never makes a plan dearer."""

from __future__ import annotations

import pytest

from bench.inputs import workloads
from shared.solver.solve import SolverSettings, solve

EFFORTS = (1, 60, 200, 300)


@pytest.mark.parametrize("seed", [3])
def test_more_effort_never_costs_more(seed: int) -> None:
    given = workloads.snapshot(workloads.karpenter_mix(40, seed), workloads.karpenter_types(30))
    costs = [
        solve(
            given,
            now=0.0,
            settings=SolverSettings(packing_policy="LowestCost", effort=effort),
        ).cost_micro_usd_per_hour
        for effort in EFFORTS
    ]
    assert costs == sorted(costs, reverse=True)
