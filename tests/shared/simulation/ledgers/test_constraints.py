"""What rules of workloads cost: the cluster planned with a rule and without it."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import AffinityTerm, PreferredTerm, SpreadConstraint
from shared.simulation.ledgers.constraints import (
    AFFINITY,
    ALL,
    ARCH,
    BUDGET,
    CAPACITY,
    HOLD,
    SEPARATION,
    SPREAD,
    TYPES,
    ZONES,
    Priced,
    planned,
    price,
    workloads,
)
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import make_catalogue, make_pool, make_types
from tests.support.planning.disruption import NOW, make_cluster, make_running, pods_on

LABELS = {"app": "web"}
POOL = make_pool(
    requirements=(
        Expression(keys.OS, "In", ("linux",)),
        Expression(keys.CAPACITY_TYPE, "In", ("on-demand", "spot")),
    )
)
APART = AffinityTerm(keys.HOSTNAME, LABELS)
EVENLY = SpreadConstraint(1, keys.HOSTNAME, match_labels=LABELS)
ON_DEMAND = {keys.CAPACITY_TYPE: "on-demand"}


def cluster(pods: dict[str, Any], **changes: Any) -> Snapshot:
    """Three machines of one pool, each with one pod of one workload."""
    running = [make_running(f"n{number}", "m5.x008", pool=POOL) for number in range(3)]
    made = [pod for one in running for pod in pods_on(one.node.name, 1, labels=LABELS, **pods)]
    catalogue = make_catalogue(make_types(capacity_types=(keys.ON_DEMAND, keys.SPOT)))
    return make_cluster(running, *made, pools=(POOL,), catalogue=catalogue, **changes)


def prices(snapshot: Snapshot) -> dict[str, Priced]:
    settings = SolverSettings()
    (one,) = workloads(snapshot, now=NOW)
    base = planned(snapshot, settings, now=NOW)
    return {each.rule: each for each in price(snapshot, one, base, settings, now=NOW)}


@pytest.mark.parametrize(
    ("rule", "pods"),
    [
        (SEPARATION, {"anti_affinity": (APART,)}),
        (SPREAD, {"spread": (EVENLY,)}),
        (CAPACITY, {"node_selector": ON_DEMAND}),
        (CAPACITY, {"required_terms": ((Expression(keys.CAPACITY_TYPE, "In", ("on-demand",)),),)}),
        (TYPES, {"node_selector": {keys.INSTANCE_TYPE: "m5.x016"}}),
        (HOLD, {"do_not_disrupt": "true"}),
    ],
)
def test_a_rule_costs_what_the_cluster_costs_less_without_it(
    rule: str, pods: dict[str, Any]
) -> None:
    found = prices(cluster(pods))
    assert found.keys() == {rule}
    assert found[rule].cost is not None
    assert (found[rule].cost or 0) > 0


@pytest.mark.parametrize(
    ("rule", "pods"),
    [
        (ZONES, {"node_selector": {keys.ZONE: "us-west-2a"}}),
        (ARCH, {"node_selector": {keys.ARCH: "amd64"}}),
        (AFFINITY, {"affinity": (APART,)}),
        (CAPACITY, {"preferred_terms": (PreferredTerm(1, (Expression(keys.CAPACITY_TYPE, "In", ("spot",)),)),)}),
    ],
)  # fmt: skip
def test_a_rule_that_the_cheapest_machines_meet_costs_nothing(
    rule: str, pods: dict[str, Any]
) -> None:
    assert [one.cost for one in prices(cluster(pods)).values()] == [0]


def test_a_budget_that_allows_nothing_holds_its_nodes() -> None:
    budget = PodDisruptionBudget("b", "default", "web", match_labels=LABELS, allowed=0)
    found = prices(cluster({}, pdbs=(budget,)))
    assert (found[BUDGET].cost or 0) > 0
    assert workloads(cluster({}), now=NOW) == []


def test_all_rules_together_have_a_price_of_their_own() -> None:
    """Two rules that keep the same pods apart: each alone costs nothing, because the other one is left."""
    found = prices(cluster({"anti_affinity": (APART,), "spread": (EVENLY,)}))
    assert [found[rule].cost for rule in (SPREAD, SEPARATION)] == [0, 0]
    assert (found[ALL].cost or 0) > 0


def test_a_rule_without_which_more_pods_have_a_place_has_no_price() -> None:
    found = prices(cluster({"node_selector": {keys.ARCH: "riscv64"}}))
    assert (found[ARCH].cost, found[ARCH].places) == (None, 3)


def test_an_annotation_that_has_ended_holds_nothing() -> None:
    assert workloads(cluster({"do_not_disrupt": "30m", "started_at": NOW - 3600}), now=NOW) == []
