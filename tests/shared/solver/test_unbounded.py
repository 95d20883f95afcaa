"""Plans without a lower bound, as simulations of disruption make them."""

from __future__ import annotations

from msgspec.structs import replace

from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import make_pod, make_pool, make_snapshot


def test_a_plan_without_a_bound_is_the_same_plan() -> None:
    snapshot = make_snapshot(*(make_pod(f"p{i}") for i in range(9)), pools=(make_pool(),))
    plan = solve(snapshot, now=0.0, settings=SolverSettings())
    without = solve(snapshot, now=0.0, settings=SolverSettings(), bounded=False)
    assert plan.machines
    assert without.lower_bound_micro_usd_per_hour is None
    bound = plan.lower_bound_micro_usd_per_hour
    assert replace(without, lower_bound_micro_usd_per_hour=bound, relaxed=plan.relaxed) == plan


def test_lowest_cost_needs_its_bound() -> None:
    snapshot = make_snapshot(*(make_pod(f"p{i}") for i in range(9)), pools=(make_pool(),))
    settings = SolverSettings(packing_policy="LowestCost")
    plans = [solve(snapshot, now=0.0, settings=settings, bounded=b) for b in (True, False)]
    assert plans[0] == plans[1]
