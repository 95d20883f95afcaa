"""Plans without a lower bound, as simulations of disruption make them."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_pod, make_pool, make_snapshot


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost", "Balanced"])
def test_a_plan_without_a_bound_is_the_same_plan(policy: str) -> None:
    snapshot = make_snapshot(*(make_pod(f"p{i}") for i in range(9)), pools=(make_pool(),))
    settings = SolverSettings(packing_policy=policy)
    plan = solve(snapshot, now=0.0, settings=settings)
    without = solve(snapshot, now=0.0, settings=settings, bounded=False)
    assert plan.machines
    assert plan.lower_bound_micro_usd_per_hour
    assert without.lower_bound_micro_usd_per_hour is None
    stated = replace(
        plan, lower_bound_micro_usd_per_hour=None, lower_bound_kind=msgspec.UNSET, relaxed=()
    )
    assert without == stated
