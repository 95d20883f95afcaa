"""A price per node: FewestNodes and LowestCost are the two ends of one scale, and Balanced is a point on it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.errors import ConfigurationError
from shared.solver.plan import Plan
from shared.solver.pools.packing_policy import BALANCED_NODE_PRICE
from shared.solver.solve import SolverSettings
from tests.support.aws.markets import lowest, market
from tests.support.planning.builders import make_daemon_set, make_pods, make_pool, make_snapshot
from tests.support.planning.snapshots import check_plan, plan_for

A_DOLLAR = 1_000_000
DEAR = 50 * A_DOLLAR
PODS = (*make_pods(40, "a", cpu="900m", memory="1Gi"), *make_pods(7, "b", cpu="3", memory="20Gi"))


SHAPES = st.lists(
    st.tuples(
        st.integers(1, 14),
        st.sampled_from(["100m", "900m", "1500m", "3"]),
        st.sampled_from(["64Mi", "2Gi", "9Gi"]),
    ),
    min_size=1,
    max_size=4,
)
"""(pods, cpu, memory) of each deployment."""


def pods_of(shapes: list[tuple[int, str, str]]) -> list[Pod]:
    return [
        pod
        for i, (count, cpu, memory) in enumerate(shapes)
        for pod in make_pods(count, f"p{i}", cpu=cpu, memory=memory)
    ]


def inputs(*pools: NodePool) -> Snapshot:
    return make_snapshot(*PODS, pools=pools or (make_pool(),), catalogue=market())


def total(plan: Plan, node_price: int) -> int:
    """What a plan costs when a node has this price."""
    return plan.cost_micro_usd_per_hour + node_price * len(plan.machines)


def without_policies(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, policies={})


@pytest.mark.slow
def test_a_node_that_costs_nothing_changes_nothing() -> None:
    snapshot = inputs()
    free = lowest(snapshot, node_price_micro_usd=0)
    assert msgspec.json.encode(free) == msgspec.json.encode(lowest(snapshot))


@pytest.mark.slow
def test_dear_nodes_are_as_few_as_fewest_nodes_has() -> None:
    snapshot = inputs()
    fewest, cheapest = plan_for(snapshot), lowest(snapshot)
    dear = lowest(snapshot, node_price_micro_usd=DEAR)
    check_plan(dear, snapshot)
    assert len(dear.machines) <= len(fewest.machines) < len(cheapest.machines)


def test_the_cost_of_a_plan_is_the_price_of_its_machines_alone() -> None:
    plan = lowest(inputs(), node_price_micro_usd=A_DOLLAR)
    prices = [machine.offering.price_micro_usd_per_hour for machine in plan.machines]
    assert plan.cost_micro_usd_per_hour == sum(prices)


@pytest.mark.slow
def test_the_bound_is_one_of_the_price_alone() -> None:
    """It holds for every plan of the same pods, whatever a node counts."""
    snapshot = inputs()
    bound = lowest(snapshot, node_price_micro_usd=A_DOLLAR).lower_bound_micro_usd_per_hour
    assert bound is not None
    assert 0 < bound <= lowest(snapshot).cost_micro_usd_per_hour


@pytest.mark.slow
def test_a_pools_own_node_price_has_precedence() -> None:
    snapshot, dear = inputs(), inputs(make_pool(node_price=DEAR))
    free = inputs(make_pool(node_price=0))
    assert lowest(dear).machines == lowest(snapshot, node_price_micro_usd=DEAR).machines
    assert lowest(free, node_price_micro_usd=DEAR).machines == lowest(snapshot).machines


@pytest.mark.slow
def test_balanced_is_lowest_cost_with_a_node_price_of_its_own() -> None:
    snapshot = inputs()
    balanced = plan_for(snapshot, packing_policy="Balanced")
    same = lowest(snapshot, node_price_micro_usd=BALANCED_NODE_PRICE)
    assert balanced.policies == {"Provisioner/default": "Balanced"}
    assert without_policies(balanced) == without_policies(same)


@pytest.mark.slow
def test_balanced_takes_the_node_price_that_is_set() -> None:
    snapshot = inputs()
    balanced = plan_for(snapshot, packing_policy="Balanced", node_price_micro_usd=0)
    assert without_policies(balanced) == without_policies(lowest(snapshot))


@pytest.mark.slow
def test_a_pool_may_ask_for_balanced() -> None:
    asked = plan_for(inputs(make_pool(packing="Balanced")))
    assert asked == plan_for(inputs(), packing_policy="Balanced")


def test_fewest_nodes_has_no_use_for_a_node_price() -> None:
    snapshot = inputs()
    assert plan_for(snapshot, node_price_micro_usd=DEAR) == plan_for(snapshot)


def test_a_node_price_below_zero_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="node_price_micro_usd must be at least 0"):
        SolverSettings(node_price_micro_usd=-1)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 5)  # each makes four plans
@given(
    SHAPES,
    st.sampled_from([1, 20_000, 200_000, A_DOLLAR, DEAR]),
)
def test_no_other_candidate_is_cheaper_once_nodes_have_a_price(
    shapes: list[tuple[int, str, str]], node_price: int
) -> None:
    snapshot = make_snapshot(*pods_of(shapes), daemon_sets=(make_daemon_set(),), catalogue=market())
    plan = lowest(snapshot, node_price_micro_usd=node_price)
    check_plan(plan, snapshot)
    others = (
        plan_for(snapshot),
        lowest(snapshot),
        lowest(snapshot, node_price_micro_usd=node_price, effort=50),
    )
    assert all(plan.unschedulable.keys() <= other.unschedulable.keys() for other in others)
    assert total(plan, node_price) <= min(total(other, node_price) for other in others)
    assert (plan.lower_bound_micro_usd_per_hour or 0) <= plan.cost_micro_usd_per_hour


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@example([(6, "900m", "9Gi"), (6, "1500m", "2Gi"), (3, "3", "2Gi")], 3)
@given(SHAPES, st.sampled_from([None, 3, 12]))
def test_lowest_cost_of_few_pods_is_never_dearer_than_balanced(
    shapes: list[tuple[int, str, str]], min_values: int | None
) -> None:
    """To pay for machines leads to larger ones, which are now and then cheaper together: such plans are tried, too."""
    pool = make_pool()
    if min_values:
        several = Expression(keys.INSTANCE_TYPE, "Exists", (), min_values)
        pool = make_pool(requirements=(*pool.requirements, several))
    snapshot = make_snapshot(*pods_of(shapes), pools=(pool,), catalogue=market())
    balanced = plan_for(snapshot, packing_policy="Balanced")
    cheapest = lowest(snapshot)
    assert cheapest.cost_micro_usd_per_hour <= balanced.cost_micro_usd_per_hour
