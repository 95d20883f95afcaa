"""Pods that are spread over capacity types and labels of the pool are packed too, and their rules hold."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from bench.inputs import workloads
from shared.cloud.catalogue.bundled import bundled_catalogue
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import SpreadConstraint
from shared.solver.solve import SolverSettings, solve

RACK = "example.com/rack"
OWN = {"app": "spread"}
POOL = (
    Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT, keys.ON_DEMAND)),
    Expression("karpenter.k8s.aws/instance-category", "In", ("c", "m", "r")),
    Expression(RACK, "In", ("r1", "r2", "r3")),
)


def spread_over(*wanted: str, requirements: tuple[Expression, ...] = POOL) -> Snapshot:
    """60 pods with a spread constraint for each key, and 30 without."""
    rules = tuple(SpreadConstraint(1, key, match_labels=OWN) for key in wanted)
    pods = workloads.replicas(60, "spread", 500, 1024, labels=OWN, spread=rules)
    others = workloads.replicas(30, "other", 250, 2048)
    pool = workloads.pool(requirements=requirements)
    types = bundled_catalogue().types[::6]
    return workloads.snapshot([*pods, *others], types, pools=(pool,))


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [(RACK,), (keys.ZONE, keys.CAPACITY_TYPE, RACK)])
def test_it_is_packed_for_less_than_fewest_nodes(wanted: tuple[str, ...]) -> None:
    given = spread_over(*wanted)
    fewest = solve(given, now=0.0, settings=SolverSettings())
    plan = solve(given, now=0.0, settings=SolverSettings(packing_policy="LowestCost", effort=50))
    assert not plan.unschedulable
    assert plan.cost_micro_usd_per_hour < 0.97 * fewest.cost_micro_usd_per_hour
    assert set(plan.policies.values()) == {"LowestCost"}
    for key in wanted:
        held = Counter[str]()
        for machine in plan.machines:
            if spread := sum("spread" in uid for uid in machine.pods):
                (value,) = next(one.values for one in machine.requirements if one.key == key)
                held[value] += spread
        assert max(held.values()) - min(held.values()) <= 1


@pytest.mark.slow
def test_a_pool_that_says_nothing_of_capacity_types_is_planned_like_one_that_allows_both() -> None:
    """Of pods without a rule of their own none is put on on-demand machines, which cost three times as much."""
    settings = SolverSettings(packing_policy="LowestCost", effort=50)
    said, unsaid = (
        solve(spread_over(keys.CAPACITY_TYPE, requirements=one), now=0.0, settings=settings)
        for one in (POOL, POOL[1:])
    )
    assert not unsaid.unschedulable
    assert unsaid.cost_micro_usd_per_hour == said.cost_micro_usd_per_hour


def test_pods_whose_rule_by_host_counts_others_share_machines_with_these() -> None:
    """Nothing refuses the counted pods, so they are built last; built first, they kept the others away."""
    rule = SpreadConstraint(1, keys.HOSTNAME, match_labels=OWN)
    counted = workloads.replicas(30, "counted", 500, 1024, labels=OWN)
    ruled = workloads.replicas(30, "ruled", 500, 1024, labels={"app": "other"}, spread=(rule,))
    pool = workloads.pool(requirements=workloads.general_requirements())
    types = bundled_catalogue().types[::6]
    given = workloads.snapshot([*counted, *ruled], types, pools=(pool,))
    plan = solve(given, now=0.0, settings=SolverSettings(packing_policy="LowestCost", effort=50))
    assert not plan.unschedulable
    kinds = [{"counted" in uid for uid in machine.pods} for machine in plan.machines]
    assert {True, False} in kinds


def test_pods_that_a_machine_refuses_change_places_with_pods_without_rules() -> None:
    """Two kinds keep two of the other off their host; planned together, one kind had a fourth machine to itself."""
    labels = {"app": "first"}, {"app": "second"}
    rules = [(SpreadConstraint(1, keys.HOSTNAME, match_labels=one),) for one in reversed(labels)]
    pods = [
        pod
        for own, rule in zip(labels, rules, strict=True)
        for pod in workloads.replicas(2, own["app"], 970, 512, labels=own, spread=rule)
    ]
    small, large = (workloads.karpenter_types()[i - 1] for i in (4, 12))
    offerings = (replace(one, price_micro_usd_per_hour=10**7) for one in large.offerings)
    types = (small, replace(large, offerings=tuple(offerings)))
    given = workloads.snapshot([*pods, *workloads.replicas(8, "without", 970, 512)], types)
    plan = solve(given, now=0.0, settings=SolverSettings(packing_policy="LowestCost", effort=50))
    assert not plan.unschedulable
    assert [machine.instance_type for machine in plan.machines] == [small.name] * 3
