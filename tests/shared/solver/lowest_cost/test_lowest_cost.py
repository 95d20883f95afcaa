"""LowestCost: cheaper machines for the same pods, by pool, size, limit and spread."""

from __future__ import annotations

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.pods import AffinityTerm, PreferredTerm
from shared.solver.plan import Plan
from tests.support.aws.markets import lowest, market
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    amounts,
    make_catalogue,
    make_node,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_type,
)
from tests.support.planning.snapshots import check_plan, plan_for, requirement_values


def test_mixed_pods_of_cpu_and_memory_share_machines_of_a_fitting_shape() -> None:
    pods = (*make_pods(60, "c", cpu="900m", memory="500Mi"), *make_pods(20, "m", memory="9Gi"))
    snapshot = make_snapshot(*pods, catalogue=market())
    fewest, plan = plan_for(snapshot), lowest(snapshot)
    check_plan(plan, snapshot)
    assert plan.cost_micro_usd_per_hour < fewest.cost_micro_usd_per_hour


def test_existing_capacity_is_used_first_as_in_fewest_nodes() -> None:
    nodes = (make_node("node-1"), make_node("node-2", cpu="2"))
    snapshot = make_snapshot(*make_pods(30, cpu="900m"), nodes=nodes, catalogue=market())
    assert lowest(snapshot).existing == plan_for(snapshot).existing


@pytest.mark.parametrize("pods", [0, 1])
def test_nothing_to_pack_is_no_trouble(pods: int) -> None:
    plan = lowest(make_snapshot(*make_pods(pods)))
    assert len(plan.machines) == pods
    assert plan.unschedulable == {}
    assert (plan.lower_bound_micro_usd_per_hour == 0) == (pods == 0)


def test_degenerate_catalogues_and_pools_are_planned_without_a_fault() -> None:
    pods = make_pods(20)
    free = make_catalogue(tuple(make_type(f"m5.x{n}", n, 4 * n, 0) for n in (2, 4)))
    nothing = frozenset((keys.ON_DEMAND, t.name, z) for t in free.types for z in ZONES)
    for changes in (
        {"catalogue": free},
        {"catalogue": free, "unavailable": nothing},
        {"catalogue": make_catalogue(())},
        {"pools": ()},
    ):
        snapshot = make_snapshot(*pods, **changes)
        plan = lowest(snapshot)
        check_plan(plan, snapshot)
        assert plan.machines == plan_for(snapshot).machines


@pytest.mark.slow
def test_very_many_different_pods_are_packed_on_a_grid_of_sizes() -> None:
    pods = [make_pod(f"{i:04d}", f"{100 + i}m", f"{200 + 3 * i}Mi") for i in range(700)]
    snapshot = make_snapshot(*pods, catalogue=market())
    fewest, plan = plan_for(snapshot), lowest(snapshot)
    check_plan(plan, snapshot)
    assert plan.policies
    assert plan.cost_micro_usd_per_hour < fewest.cost_micro_usd_per_hour


def test_a_machine_lists_every_type_that_holds_its_pods() -> None:
    snapshot = make_snapshot(*make_pods(30, cpu="900m", memory="1Gi"), catalogue=market())
    plan = lowest(snapshot)
    assert plan.policies
    for machine in plan.machines:
        holding = {
            t.name
            for t in snapshot.catalogue.types
            if all(t.capacity.get(k, 0) >= v for k, v in machine.requests.items())
        }
        assert set(machine.instance_types) == holding


def test_the_heaviest_pool_takes_all_that_it_can_hold() -> None:
    """A cheaper pool of less weight gets only the pods that the heavier pool cannot run (NP-22)."""
    dear = make_pool(
        "dear",
        weight=10,
        requirements=(
            *DEFAULT_REQUIREMENTS,
            Expression(keys.AWS_PREFIX + "instance-family", "In", ("r5",)),
        ),
    )
    plain = make_pool("plain", labels={"team": "blue"})
    pods = (*make_pods(20, "a", cpu="900m"), *make_pods(9, "b", node_selector={"team": "blue"}))
    plan = lowest(make_snapshot(*pods, pools=(dear, plain), catalogue=market()))
    assert plan.policies.keys() <= {"Provisioner/dear", "Provisioner/plain"}
    for machine in plan.machines:
        assert (machine.pool == "plain") == any("-b-" in uid for uid in machine.pods)
    assert "pool weights" in plan.relaxed


def test_limits_hold_for_the_largest_type_of_every_machine() -> None:
    """SCH-100: limits during a round."""
    pool = make_pool(limits=amounts(cpu="100"))
    snapshot = make_snapshot(*make_pods(80, cpu="900m"), pools=(pool,), catalogue=market())
    plan = lowest(snapshot)
    check_plan(plan, snapshot)
    types = {t.name: t for t in snapshot.catalogue.types}
    largest = [max(types[n].capacity["cpu"] for n in m.instance_types) for m in plan.machines]
    assert sum(largest) <= 100_000
    assert plan.unschedulable.keys() <= plan_for(snapshot).unschedulable.keys()
    assert "pool limits" in plan.relaxed


def test_each_pool_follows_its_own_policy() -> None:
    old = make_pool("old", labels={"team": "old"}, packing="FewestNodes")
    new = make_pool("new", labels={"team": "new"}, packing="LowestCost")
    pods = [
        pod
        for team in ("old", "new")
        for pod in make_pods(60, team, cpu="900m", node_selector={"team": team})
    ]
    snapshot = make_snapshot(*pods, pools=(old, new), catalogue=market())
    fewest, plan = plan_for(snapshot, packing_policy="FewestNodes"), plan_for(snapshot)
    check_plan(plan, snapshot)
    assert plan.policies == {"Provisioner/new": "LowestCost"}

    def sizes(found: Plan, pool: str) -> list[int]:
        return sorted(len(m.pods) for m in found.machines if m.pool == pool)

    assert fewest == plan
    assert sizes(plan, "old") == [7, 53]
    assert len(sizes(plan, "new")) > 2


def test_a_pool_may_refuse_what_the_setting_asks_for() -> None:
    pool = make_pool(packing="FewestNodes")
    snapshot = make_snapshot(*make_pods(60, cpu="900m"), pools=(pool,), catalogue=market())
    assert lowest(snapshot) == plan_for(snapshot)


def test_no_machine_is_larger_than_allowed_unless_a_pod_needs_it() -> None:
    pods = (*make_pods(60, "a", cpu="900m"), make_pod("huge", cpu="20"))
    snapshot = make_snapshot(*pods, catalogue=market())
    plan = lowest(snapshot, most_node_cpu_milli=4000)
    check_plan(plan, snapshot)
    types = {t.name: t for t in snapshot.catalogue.types}
    for machine in plan.machines:
        if "uid-huge" not in machine.pods:
            assert types[machine.instance_type].capacity["cpu"] <= 4000


def test_min_values_hold_for_packed_machines() -> None:
    """SCH-12: minValues."""
    wanted = Expression(keys.AWS_PREFIX + "instance-family", "Exists", (), 3)
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS, wanted))
    snapshot = make_snapshot(
        *make_pods(60, cpu="900m", memory="3Gi"), pools=(pool,), catalogue=market()
    )
    plan = lowest(snapshot)
    check_plan(plan, snapshot)
    assert plan.unschedulable == {}
    for machine in plan.machines:
        assert len({name.split(".")[0] for name in machine.instance_types}) == 3
    assert "minValues" in plan.relaxed


@pytest.mark.slow
def test_spread_pods_are_even_over_zones_and_packed() -> None:
    spread = (make_spread(keys.ZONE),)
    pods = make_pods(90, cpu="900m", labels={"app": "web"}, spread=spread)
    snapshot = make_snapshot(*pods, catalogue=market())
    fewest, plan = plan_for(snapshot), lowest(snapshot)
    check_plan(plan, snapshot)
    per_zone = dict.fromkeys(ZONES, 0)
    for machine in plan.machines:
        (zone,) = requirement_values(machine, keys.ZONE)
        per_zone[zone] += len(machine.pods)
    assert set(per_zone.values()) == {30}
    assert plan.cost_micro_usd_per_hour < fewest.cost_micro_usd_per_hour
    assert plan.relaxed == ("topology spread",)


def test_a_preference_that_no_pool_meets_does_not_keep_pods_from_being_packed() -> None:
    term = Expression(keys.ARCH, "In", ("arm64",))
    preferred = (PreferredTerm(1, (term,)),)
    pods = make_pods(60, cpu="900m", preferred_terms=preferred)
    snapshot = make_snapshot(*pods, catalogue=market())
    assert lowest(snapshot).policies


def test_the_bound_of_fewest_nodes_is_sound_and_leaves_out_limits_per_machine() -> None:
    """The bound is computed for FewestNodes too; LowestCost computes a better one."""
    alone = AffinityTerm(keys.HOSTNAME, match_labels={"app": "web"})
    pods = make_pods(10, labels={"app": "web"}, anti_affinity=(alone,))
    snapshot = make_snapshot(*pods, catalogue=market())
    weak = plan_for(snapshot).lower_bound_micro_usd_per_hour
    strong = lowest(snapshot).lower_bound_micro_usd_per_hour
    assert weak is not None
    assert strong is not None
    assert 0 < weak < strong <= lowest(snapshot).cost_micro_usd_per_hour
