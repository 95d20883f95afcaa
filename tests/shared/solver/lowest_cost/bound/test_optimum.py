"""Small inputs, solved by an integer program of its own: bound <= optimum, and LowestCost finds the optimum."""

from __future__ import annotations

import pytest

from shared.solver.lowest_cost.bound import lower
from tests.support.planning.small_inputs import Undecided, small_input
from tests.support.planning.snapshots import plan_for

EFFORTS = (5, 100, 1000)


def check(
    seed: int, effort: int, *, limited: bool = False, zoned: bool = False
) -> tuple[int, int, int]:
    """(bound, optimum, cost), in micro-USD per hour."""
    given = small_input(seed, limited=limited, zoned=zoned)
    plan = plan_for(given.snapshot(), packing_policy="LowestCost", effort=effort)
    assert not plan.unschedulable
    optimum, bound = given.optimum(), plan.lower_bound_micro_usd_per_hour
    assert bound is not None
    assert bound <= optimum <= plan.cost_micro_usd_per_hour, seed
    return bound, optimum, plan.cost_micro_usd_per_hour


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2, 4, 5])
def test_small_inputs_are_planned_at_the_optimum(seed: int) -> None:
    bound, optimum, cost = check(seed, effort=200)
    assert cost == optimum
    assert bound >= 0.85 * optimum


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 3])
def test_limits_per_host_are_in_the_bound(seed: int) -> None:
    bound, optimum, _ = check(seed, effort=200, limited=True)
    assert bound >= 0.95 * optimum


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "least"), [(10, 0.85), (13, 0.94)])
def test_pods_that_are_bound_to_zones_are_in_the_bound(seed: int, least: float) -> None:
    bound, optimum, _ = check(seed, effort=200, zoned=True)
    assert bound >= least * optimum


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """All inputs have too many kinds for a search for contents, in zones or without: the bound divides pods."""
    monkeypatch.setattr(lower, "_MOST_PAIRS_IN_ZONES", 0)
    monkeypatch.setattr(lower, "MOST_PAIRS", 0)


@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize(("seed", "least"), [(10, 0.805), (13, 0.81)])
def test_zones_are_in_the_bound_of_too_many_kinds(seed: int, least: float) -> None:
    bound, optimum, _ = check(seed, effort=50, zoned=True)
    assert bound >= least * optimum


@pytest.mark.slow
@pytest.mark.usefixtures("divided")
@pytest.mark.parametrize("seed", range(11, 20))
def test_the_bound_of_too_many_kinds_is_never_above_the_optimum(seed: int) -> None:
    if small_input(seed, zoned=True).has_room:
        check(seed, effort=50, zoned=True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(60))
def test_sixty_small_inputs_are_planned_at_the_optimum(seed: int) -> None:
    _, optimum, cost = check(seed, effort=200)
    assert cost == optimum


def check_ten(first: int, **rules: bool) -> None:
    """Ten inputs; those without room for their pods, and at most one without an optimum in time, are passed over."""
    undecided = []
    for seed in range(first, first + 10):
        if small_input(seed, **rules).has_room:
            try:
                check(seed, effort=EFFORTS[seed % 3], **rules)
            except Undecided:
                undecided.append(seed)
    assert len(undecided) <= 1, undecided


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1000, 1500, 10))
def test_the_bound_of_five_hundred_small_inputs_is_never_above_the_optimum(first: int) -> None:
    check_ten(first)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(2000, 2500, 10))
def test_neither_is_that_of_five_hundred_with_limits_per_host(first: int) -> None:
    check_ten(first, limited=True)


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(3000, 3500, 10))
def test_neither_is_that_of_five_hundred_with_pods_in_zones(first: int) -> None:
    check_ten(first, zoned=True)
