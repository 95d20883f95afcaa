"""Pods of many kinds are packed close to the bound: with hundreds of kinds the mix of column generation is rounded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from bench.inputs import workloads
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain.workloads.pods import Pod
from shared.solver.solve import SolverSettings, solve

LOWEST = SolverSettings(packing_policy="LowestCost")


def over_bound(pods: list[Pod]) -> float:
    """Cost over the bound that the plan states."""
    pool = workloads.pool(requirements=workloads.general_requirements())
    given = workloads.snapshot(pods, bundled_catalogue().types, pools=(pool,))
    plan = solve(given, now=0.0, settings=LOWEST)
    assert not plan.unschedulable
    return plan.cost_micro_usd_per_hour / (plan.lower_bound_micro_usd_per_hour or 1)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("pods", "most"),
    [
        pytest.param(partial(workloads.zipf, 300, 60, 21), 1.02, id="60 deployments"),
        pytest.param(partial(workloads.zipf, 1000, 200, 11), 1.02, id="200 deployments"),
        pytest.param(
            partial(workloads.zipf, 1500, 200, 14), 1.05, id="most machines forced by hosts"
        ),
        pytest.param(
            partial(workloads.karpenter_mix, 1000, 3), 1.06, id="every second pod with a rule"
        ),
    ],
)
def test_a_plan_costs_hardly_more_than_the_bound(
    pods: Callable[[], list[Pod]], most: float
) -> None:
    assert over_bound(pods()) <= most
