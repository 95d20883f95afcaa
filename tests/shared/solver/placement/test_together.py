"""Pods that must share a domain begin where existing capacity has room for most of them (SCH-80)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import labels as keys
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_node,
    make_pod,
    make_pods,
    make_snapshot,
    make_term,
)
from tests.support.planning.plan_checker import check_plan
from tests.support.planning.snapshots import plan_for, pods_per_machine

WEB = {"app": "web"}
POLICIES = (PackingPolicy.FEWEST_NODES, PackingPolicy.LOWEST_COST)
Sizes = list[tuple[str, int]]
"""Nodes as (zone, CPUs)."""


def nodes_of(sizes: Iterable[tuple[str, int]]) -> tuple[Node, ...]:
    return tuple(
        make_node(f"node-{at}", str(cpu), "999Gi", labels={keys.ZONE: zone})
        for at, (zone, cpu) in enumerate(sizes)
    )


def together(count: int, key: str = keys.ZONE, cpu: str = "2") -> tuple[Pod, ...]:
    return make_pods(count, f"web{cpu}", cpu=cpu, labels=WEB, affinity=(make_term(key),))


def taken(plan: Plan) -> dict[str, int]:
    """Pods by existing node."""
    return {name: len(uids) for name, uids in plan.existing.items()}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("key", [keys.ZONE, keys.HOSTNAME])
def test_the_domain_with_room_for_all_comes_before_the_first_with_room_for_one(
    policy: str, key: str
) -> None:
    nodes = nodes_of([(ZONES[0], 2), (ZONES[1], 8)])
    plan = plan_for(make_snapshot(*together(4, key), nodes=nodes), packing_policy=policy)
    assert (taken(plan), plan.machines) == ({"node-1": 4}, ())


def test_among_domains_with_equal_room_the_first_target_decides() -> None:
    nodes = nodes_of([(ZONES[1], 2), (ZONES[0], 4), (ZONES[1], 2)])
    plan = plan_for(make_snapshot(*together(2), nodes=nodes))
    assert taken(plan) == {"node-0": 1, "node-2": 1}


def test_smaller_pods_of_the_same_group_count_too() -> None:
    nodes = nodes_of([(ZONES[0], 4), (ZONES[1], 7)])
    pods = (*together(1, cpu="4"), *together(3, cpu="1"))
    assert taken(plan_for(make_snapshot(*pods, nodes=nodes))) == {"node-1": 4}


def test_room_for_most_is_better_than_room_for_one() -> None:
    nodes = nodes_of([(ZONES[0], 2), (ZONES[1], 6)])
    plan = plan_for(make_snapshot(*together(4), nodes=nodes))
    assert (taken(plan), pods_per_machine(plan)) == ({"node-1": 3}, [1])


def test_running_pods_of_the_group_decide_whatever_room_there_is() -> None:
    nodes = nodes_of([(ZONES[0], 4), (ZONES[1], 8)])
    running = make_bound_pod("running", "node-0", cpu="2", labels=WEB)
    plan = plan_for(make_snapshot(running, *together(3), nodes=nodes))
    assert taken(plan) == {"node-0": 1}


def test_nodes_that_the_pods_may_not_use_have_no_room() -> None:
    nodes = nodes_of([(ZONES[0], 4), (ZONES[1], 8)])
    chosen = {keys.ZONE: ZONES[0]}
    pods = make_pods(2, cpu="2", labels=WEB, affinity=(make_term(keys.ZONE),), node_selector=chosen)
    assert taken(plan_for(make_snapshot(*pods, nodes=nodes))) == {"node-0": 2}


sizes = st.lists(st.tuples(st.sampled_from(ZONES), st.integers(1, 9)), min_size=1, max_size=8)


@pytest.mark.parametrize("policy", POLICIES)
@given(sizes=sizes, count=st.integers(1, 8), others=st.integers(0, 3))
def test_nothing_is_bought_while_one_zone_has_room_for_the_group(
    policy: str, sizes: Sizes, count: int, others: int
) -> None:
    snapshot = make_snapshot(
        *together(count), *(make_pod(f"other-{at}") for at in range(others)), nodes=nodes_of(sizes)
    )
    plan = plan_for(snapshot, packing_policy=policy)
    check_plan(plan, snapshot)
    most = max(sum(cpu // 2 for at, cpu in sizes if at == zone) for zone in ZONES)
    on_nodes = sum(uid.startswith("uid-web") for uids in plan.existing.values() for uid in uids)
    assert on_nodes == min(count, most)
