"""Plans: the seeds' scenarios, the records, and which pods are planned."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.instance_types.types import Offering
from shared.errors import ConfigurationError
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    amounts,
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_node,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_type,
    make_types,
    real_snapshot,
)
from tests.support.planning.snapshots import (
    check_plan,
    plan_for,
    pods_per_machine,
    requirement_values,
)


def test_scenario_2_four_hundred_small_pods_share_one_machine() -> None:
    plan = plan_for(real_snapshot(*make_pods(400, cpu="250m", memory="256Mi")))
    assert pods_per_machine(plan) == [400]
    assert plan.machines[0].requests == amounts(cpu="100", memory="100Gi", pods="400")


def test_scenario_4_a_hundred_one_core_pods_share_one_machine() -> None:
    snapshot = real_snapshot(*make_pods(100, cpu="1", memory="1Gi"))
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert pods_per_machine(plan) == [100]
    cores = {t.name: t.capacity["cpu"] for t in snapshot.catalogue.types}
    assert min(cores[name] for name in plan.machines[0].instance_types) >= 128_000


def test_scenario_5_ten_large_pods_share_one_machine() -> None:
    plan = plan_for(real_snapshot(*make_pods(10, cpu="10", memory="10Gi")))
    assert pods_per_machine(plan) == [10]


def test_scenario_7_a_soft_host_spread_bounds_each_machine() -> None:
    spread = (make_spread(keys.HOSTNAME, 30, hard=False),)
    pods = make_pods(400, cpu="250m", memory="256Mi", labels={"app": "web"}, spread=spread)
    plan = plan_for(real_snapshot(*pods))
    assert pods_per_machine(plan) == [30] * 13 + [10]


def test_scenario_8_the_system_share_makes_two_cores_need_four() -> None:
    snapshot = real_snapshot(make_pod(cpu="2000m", memory="2560Mi"))
    [machine] = plan_for(snapshot).machines
    cores = {t.name: t.capacity["cpu"] for t in snapshot.catalogue.types}
    assert min(cores[name] for name in machine.instance_types) == 4000


def test_scenario_9_a_zone_and_capacity_type_selector_is_kept() -> None:
    selector = {keys.ZONE: ZONES[1], keys.CAPACITY_TYPE: keys.SPOT}
    both = Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT, keys.ON_DEMAND))
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS[:2], both))
    types = make_types(capacity_types=(keys.SPOT, keys.ON_DEMAND))
    snapshot = make_snapshot(
        make_pod(node_selector=selector), pools=(pool,), catalogue=make_catalogue(types)
    )
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    assert (plan.machines[0].labels.items()) >= selector.items()
    assert plan.machines[0].offering == Offering(ZONES[1], keys.SPOT, 28_800)


def test_scenario_12_an_undefined_custom_label_is_named() -> None:
    """SCH-10: custom labels."""
    plan = plan_for(make_snapshot(make_pod(node_selector={"Karpenter": "enabled"})))
    assert 'label "Karpenter" does not have known values' in plan.unschedulable["uid-pod"]
    defined = make_pool(labels={"Karpenter": "enabled"})
    pod = make_pod(node_selector={"Karpenter": "enabled"})
    assert len(plan_for(make_snapshot(pod, pools=(defined,))).machines) == 1


def test_sch_10_a_pod_that_excludes_a_value_defines_no_label_for_others() -> None:
    """Whether a pool can run a pod must not depend on the order of pods."""
    not_red = Expression("team", "NotIn", ("red",))
    excluding = make_pod("first", "2", required_terms=((not_red,),))
    selecting = make_pod("second", "1", node_selector={"team": "blue"})
    plan = plan_for(make_snapshot(excluding, selecting))
    assert [machine.pods for machine in plan.machines] == [("uid-first",)]
    assert 'label "team" does not have known values' in plan.unschedulable["uid-second"]


def test_scenario_13_requests_include_the_daemons() -> None:
    """SCH-46: daemons of new nodes; NC-09: requests of a NodeClaim."""
    daemons = tuple(make_daemon_set(f"agent-{i}", "50m", "32Mi") for i in range(5))
    plan = plan_for(make_snapshot(make_pod(cpu="1225m", memory="1526Mi"), daemon_sets=daemons))
    assert plan.machines[0].requests == amounts(cpu="1475m", memory="1686Mi", pods="6")


def test_pod_01_pods_that_do_not_wait_for_capacity_are_left_alone() -> None:
    pods = (
        make_pod("gated", unschedulable=False),
        make_pod("nominated", nominated_node="node-1"),
        make_pod("terminating", terminating=True),
        make_bound_pod("running", "node-1"),
    )
    plan = plan_for(make_snapshot(*pods))
    assert (plan.machines, plan.existing, plan.unschedulable) == ((), {}, {})


def test_pod_03_a_faulty_pod_gets_its_faults_and_stops_nobody() -> None:
    faulty = make_pod("faulty", faults=("spec.affinity: matchFields is not supported",))
    plan = plan_for(make_snapshot(faulty, make_pod("sound")))
    assert plan.unschedulable == {"uid-faulty": "spec.affinity: matchFields is not supported"}
    assert pods_per_machine(plan) == [1]


def test_an_unreadable_expression_is_a_verdict() -> None:
    term = (Expression("example.com/size", "Gt", ("big",)),)
    plan = plan_for(make_snapshot(make_pod("odd", required_terms=(term,)), make_pod("sound")))
    assert "non-negative integer" in plan.unschedulable["uid-odd"]
    assert pods_per_machine(plan) == [1]


def test_pod_09_pods_of_a_leaving_node_get_another_place() -> None:
    node = make_node(terminating=True)
    pods = (make_bound_pod("moving", "node-1"), make_bound_pod("other", "node-1"))
    plan = plan_for(make_snapshot(*pods, nodes=(node,)), "uid-moving")
    assert [m.pods for m in plan.machines] == [("uid-moving",)]


def test_a_zone_id_is_refused_in_words() -> None:
    plan = plan_for(make_snapshot(make_pod(node_selector={keys.ZONE_ID: "usw2-az1"})))
    assert keys.ZONE_ID in plan.unschedulable["uid-pod"]


def test_sch_35_a_machine_keeps_every_type_that_fits_cheapest_first() -> None:
    """NC-08: requirements of a NodeClaim; SCH-103: order and number of types."""
    [machine] = plan_for(make_snapshot(make_pod(cpu="3", memory="1Gi"))).machines
    expected = ("m5.x004", "m5.x008", "m5.x016", "m5.x032", "m5.x064", "m5.x128")
    assert machine.instance_types == expected
    assert tuple(requirement_values(machine, keys.INSTANCE_TYPE)) == expected
    assert machine.instance_type == "m5.x004"


def test_sch_103_the_type_list_is_cut_at_the_cheap_end() -> None:
    plan = plan_for(make_snapshot(make_pod()), max_instance_types=2)
    assert plan.machines[0].instance_types == ("m5.x002", "m5.x004")


def test_nc_08_the_capacity_type_is_narrowed_to_what_is_offered() -> None:
    both = Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT, keys.ON_DEMAND))
    pool = make_pool(requirements=(*DEFAULT_REQUIREMENTS[:2], both))
    [machine] = plan_for(make_snapshot(make_pod(), pools=(pool,))).machines
    assert requirement_values(machine, keys.CAPACITY_TYPE) == [keys.ON_DEMAND]


def test_nc_06_labels_hold_the_pools_and_the_decided_ones() -> None:
    pool = make_pool(
        "team",
        labels={"billing": "red"},
        requirements=(*DEFAULT_REQUIREMENTS, Expression("shard", "Exists"), _in("tier", "b", "a")),
        taints=(Taint("dedicated", "NoSchedule", "x"),),
        startup_taints=(Taint("booting", "NoSchedule"),),
    )
    snapshot = make_snapshot(make_pod(tolerations=_any_toleration()), pools=(pool,))
    [machine] = plan_for(snapshot).machines
    assert machine.labels == {
        "billing": "red",
        "shard": machine.name[-10:],
        "tier": "a",
        keys.PROVISIONER_NAME: "team",
        keys.ARCH: "amd64",
        keys.OS: "linux",
        keys.CAPACITY_TYPE: keys.ON_DEMAND,
    }
    assert (machine.taints, machine.startup_taints) == (pool.taints, pool.startup_taints)


def test_names_and_id_depend_on_what_is_planned_not_on_the_mirror_generation() -> None:
    """Names are derived from the plan's input (R4)."""
    first = plan_for(make_snapshot(make_pod()))
    again = plan_for(make_snapshot(make_pod(), generation=9))
    other = plan_for(make_snapshot(make_pod("another")))
    assert (first.id, first.machines) == (again.id, again.machines)
    assert first.machines[0].name != other.machines[0].name
    assert first.machines[0].name.startswith("default-")


def test_the_cost_is_the_sum_of_the_cheapest_offerings() -> None:
    pods = make_pods(2, cpu="3", spread=(make_spread(keys.HOSTNAME),), labels={"app": "web"})
    assert plan_for(make_snapshot(*pods)).cost_micro_usd_per_hour == 2 * 4 * 48_000


def test_an_unavailable_offering_is_not_used() -> None:
    """IT-04: offerings."""
    types = (make_type("m5.large", 2, 8, 50), make_type("m5.xlarge", 4, 16, 100))
    gone = frozenset({(keys.ON_DEMAND, "m5.large", zone) for zone in ZONES})
    snapshot = make_snapshot(make_pod(), catalogue=make_catalogue(types), unavailable=gone)
    assert plan_for(snapshot).machines[0].instance_types == ("m5.xlarge",)


def test_only_zones_with_a_subnet_are_used() -> None:
    subnets = make_node_class().subnets[:1]
    pod = make_pod(node_selector={keys.ZONE: ZONES[2]})
    snapshot = make_snapshot(pod, node_classes=(make_node_class(subnets=subnets),))
    assert "required offering" in plan_for(snapshot).unschedulable["uid-pod"]


@pytest.mark.parametrize(
    ("node_classes", "pool", "reason"),
    [
        ((), {}, 'node class "default" not found'),
        (
            (make_node_class(ready=False, fault="no subnet matches"),),
            {},
            'node class "default" is not ready: no subnet matches',
        ),
        ((make_node_class(terminating=True),), {}, 'node class "default" is being deleted'),
        ((make_node_class(),), {"terminating": True}, "it is being deleted"),
    ],
)
def test_an_unusable_pool_is_named_with_its_reason(
    node_classes: tuple[object, ...], pool: dict[str, Any], reason: str
) -> None:
    snapshot = make_snapshot(make_pod(), pools=(make_pool(**pool),), node_classes=node_classes)
    expected = f'provisioner "default" cannot be used: {reason}'
    assert plan_for(snapshot).unschedulable == {"uid-pod": expected}


def test_scenario_1_without_a_pool_the_verdict_says_so() -> None:
    plan = plan_for(make_snapshot(make_pod(), pools=()))
    assert "create one" in plan.unschedulable["uid-pod"]


@pytest.mark.parametrize(
    "wrong",
    [{"max_instance_types": 0}, {"preference_policy": "Maybe"}, {"min_values_policy": "Maybe"}],
)
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        SolverSettings(**wrong)  # type: ignore[arg-type]


def _in(key: str, *values: str) -> Expression:
    return Expression(key, "In", values)


def _any_toleration() -> tuple[Toleration, ...]:
    return (Toleration(operator="Exists"),)
