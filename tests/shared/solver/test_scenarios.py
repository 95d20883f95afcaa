"""The seeds' stories as far as planning goes (spec 10.1, 10.4, 10.6), on all types of AWS.

Other numbers: 5, 7, 8 and 13 are in ``test_solve``, 10 and 38 in ``test_placement``, 41 in
``test_reasons``, 68 in ``test_relaxation``, 69 and 70 in ``test_topology``, 71 in ``test_volumes``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import SubnetRef
from shared.domain.snapshot import OfferingKey, Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan, PlannedMachine
from tests.support.planning.builders import (
    COMPUTE_REQUIREMENTS,
    amounts,
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_machine,
    make_node,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
    make_spread,
    make_type,
    real_catalogue,
    real_snapshot,
)
from tests.support.planning.snapshots import (
    check_plan,
    plan_for,
    pods_per_machine,
    requirement_values,
)

ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SPOT = Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT,))
BOTH = Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT, keys.ON_DEMAND))
APPS = {"intent": "apps"}


def requirements(*wanted: Expression) -> tuple[Expression, ...]:
    """Default requirements, with those in ``wanted`` replaced."""
    said = {expression.key for expression in wanted}
    return (*(e for e in COMPUTE_REQUIREMENTS if e.key not in said), *wanted)


def sound(snapshot: Snapshot) -> Plan:
    """A plan that the independent checker accepts."""
    plan = plan_for(snapshot)
    check_plan(plan, snapshot)
    return plan


def in_flight(planned: PlannedMachine) -> Machine:
    """The record of a planned machine, before its instance is there."""
    return make_machine(planned.name, labels=planned.labels, requirements=planned.requirements)


def reasons_of(plan: Plan) -> set[str]:
    return set(plan.unschedulable.values())


def test_scenario_1_pods_wait_without_a_pool_and_one_pool_is_enough() -> None:
    pods = make_pods(5)
    before = sound(real_snapshot(*pods, pools=()))
    assert (before.machines, len(before.unschedulable)) == ((), 5)
    assert pods_per_machine(sound(real_snapshot(*pods))) == [5]


@pytest.mark.slow
def test_scenario_2_pods_that_come_in_two_windows_need_two_machines_at_most() -> None:
    """The second plan sees the first one's machine without a node, and its pods still pending."""
    pods = make_pods(400, cpu="250m", memory="256Mi")
    pools = (make_pool(requirements=requirements(SPOT)),)
    [first] = sound(real_snapshot(*pods[:218], pools=pools)).machines
    second = sound(real_snapshot(*pods, pools=pools, machines=(in_flight(first),)))
    assert len(second.existing[first.name]) >= 218
    assert len(second.machines) <= 1
    assert second.unschedulable == {}
    assert {first.offering.capacity_type} == {keys.SPOT}


def test_scenario_4_a_hundred_cores_leave_types_of_128_cores_and_more() -> None:
    """On spot, as the seed's Provisioner asks."""
    pools = (make_pool(requirements=requirements(SPOT)),)
    snapshot = real_snapshot(*make_pods(100, cpu="1", memory="1Gi"), pools=pools)
    [machine] = sound(snapshot).machines
    assert {"c6i.32xlarge", "m6i.32xlarge", "m6a.32xlarge"} <= set(machine.instance_types)
    cores = {t.name: t.capacity["cpu"] // 1000 for t in snapshot.catalogue.types}
    assert min(cores[name] for name in machine.instance_types) == 128
    assert machine.offering.capacity_type == keys.SPOT


def test_scenario_9_a_node_with_the_labels_is_used_before_a_new_one() -> None:
    selector = {keys.ZONE: ZONES[0], keys.CAPACITY_TYPE: keys.SPOT}
    pods = make_pods(6, cpu="1", node_selector=selector)
    nodes = (
        make_node("there", labels={**selector, keys.CAPACITY_TYPE: keys.SPOT}),
        make_node("elsewhere", labels={keys.ZONE: ZONES[1], keys.CAPACITY_TYPE: keys.SPOT}),
    )
    pools = (make_pool(requirements=requirements(BOTH)),)
    plan = sound(real_snapshot(*pods, nodes=nodes, pools=pools))
    assert {name: len(uids) for name, uids in plan.existing.items()} == {"there": 4}
    [machine] = plan.machines
    assert (machine.offering.zone, machine.offering.capacity_type) == (ZONES[0], keys.SPOT)


def test_scenario_12_a_custom_label_works_where_the_pool_defines_it() -> None:
    taint = Taint("karpenter", "NoSchedule", "true")
    tolerates = (Toleration("karpenter", "Equal", "true", "NoSchedule"),)
    pod = make_pod(node_selector={"Karpenter": "enabled"}, tolerations=tolerates)
    plain, defined = make_pool(taints=(taint,)), {"Karpenter": "enabled"}
    [text] = reasons_of(sound(real_snapshot(pod, pools=(plain,))))
    assert 'label "Karpenter" does not have known values' in text
    pool = make_pool(taints=(taint,), labels=defined)
    [machine] = sound(real_snapshot(pod, pools=(pool,))).machines
    assert defined.items() <= machine.labels.items()


def without_spot(zones: Iterable[str]) -> frozenset[OfferingKey]:
    return frozenset((keys.SPOT, t.name, z) for t in real_catalogue().types for z in zones)


def test_scenario_17_spot_is_preferred_and_on_demand_is_the_way_out() -> None:
    """IT-04: offerings without capacity are left out for a while."""
    pools = (make_pool(requirements=requirements(BOTH)),)
    [usual] = sound(real_snapshot(make_pod(cpu="1"), pools=pools)).machines
    assert usual.offering.capacity_type == keys.SPOT
    assert sorted(requirement_values(usual, keys.CAPACITY_TYPE)) == [keys.ON_DEMAND, keys.SPOT]
    gone = without_spot({o.zone for t in real_catalogue().types for o in t.offerings})
    [other] = sound(real_snapshot(make_pod(cpu="1"), pools=pools, unavailable=gone)).machines
    assert other.offering.capacity_type == keys.ON_DEMAND
    assert requirement_values(other, keys.CAPACITY_TYPE) == [keys.ON_DEMAND]


def test_scenario_17_spot_in_the_last_zone_is_still_spot() -> None:
    pools = (make_pool(requirements=requirements(BOTH)),)
    snapshot = real_snapshot(make_pod(), pools=pools, unavailable=without_spot(ZONES[:2]))
    [machine] = sound(snapshot).machines
    assert (machine.offering.zone, machine.offering.capacity_type) == (ZONES[2], keys.SPOT)


def test_scenario_25_the_heaviest_pool_that_fits_is_used() -> None:
    taint = Taint("dedicated", "NoSchedule", "x")
    pools = (
        make_pool("light", weight=1),
        make_pool("middle", weight=10),
        make_pool("tainted", weight=100, taints=(taint,)),
    )
    plan = sound(real_snapshot(make_pod(), pools=pools))
    assert [machine.pool for machine in plan.machines] == ["middle"]


def test_scenario_25_a_spot_pod_waits_where_only_on_demand_may_be_bought() -> None:
    pod = make_pod(node_selector={keys.CAPACITY_TYPE: keys.SPOT})
    plan = sound(real_snapshot(pod))
    assert plan.machines == ()
    [text] = reasons_of(plan)
    assert (
        "incompatible requirements, key karpenter.sh/capacity-type,"
        " karpenter.sh/capacity-type In [spot] not in karpenter.sh/capacity-type In [on-demand]"
    ) in text


def test_scenario_26_a_pool_at_its_limits_buys_nothing_and_says_so() -> None:
    """SCH-100, SCH-102: cpu 1000, memory 1000Gi. What runs there stays."""
    pool = make_pool(limits=amounts(cpu="1000", memory="1000Gi"))
    full = make_node("full", "1000", "900Gi", labels={keys.PROVISIONER_NAME: "default"})
    busy = make_bound_pod("busy", "full", cpu="1000", memory="1Gi")
    plan = sound(real_snapshot(make_pod(), busy, pools=(pool,), nodes=(full,)))
    assert (plan.machines, plan.existing) == ((), {})
    assert reasons_of(plan) == {
        'all available instance types exceed limits for provisioner: "default"'
    }


@pytest.mark.parametrize(("used", "largest"), [("990", 8), ("900", 96)])
def test_scenario_26_near_its_limits_a_pool_buys_what_is_left(used: str, largest: int) -> None:
    """SCH-101: types beyond the limits."""
    pool = make_pool(limits=amounts(cpu="1000", memory="100000Gi"))
    node = make_node("full", used, labels={keys.PROVISIONER_NAME: "default"}, unschedulable=True)
    snapshot = real_snapshot(make_pod(), pools=(pool,), nodes=(node,))
    [machine] = sound(snapshot).machines
    cores = {t.name: t.capacity["cpu"] // 1000 for t in snapshot.catalogue.types}
    assert max(cores[name] for name in machine.instance_types) == largest


def special_team(*pods: Pod) -> Snapshot:
    """The Provisioner of ACC-27."""
    zones = ("us-west-2a", "us-west-2b")
    pool = make_pool(
        taints=(Taint("example.com/special-taint", "NoSchedule"),),
        labels={"billing-team": "my-team"},
        requirements=(
            Expression(keys.INSTANCE_TYPE, "In", ("m5.large", "m5.2xlarge")),
            Expression(keys.ZONE, "In", zones),
            Expression(keys.ARCH, "In", ("arm64", "amd64")),
            BOTH,
        ),
    )
    subnets = tuple(SubnetRef(f"subnet-{z}", z) for z in (*zones, "us-west-2c"))
    return real_snapshot(
        *pods,
        pools=(pool,),
        node_classes=(make_node_class(subnets=subnets),),
        catalogue=real_catalogue("us-west-2"),
    )


def test_scenario_27_a_special_pool_gives_its_taint_label_types_and_zones() -> None:
    tolerates = (Toleration("example.com/special-taint", "Exists"),)
    plan = sound(special_team(make_pod("ours", tolerations=tolerates), make_pod("other")))
    [machine] = plan.machines
    assert machine.pods == ("uid-ours",)
    assert machine.instance_types == ("m5.large", "m5.2xlarge")
    assert machine.labels["billing-team"] == "my-team"
    assert machine.taints == (Taint("example.com/special-taint", "NoSchedule"),)
    assert requirement_values(machine, keys.ZONE) == ["us-west-2a", "us-west-2b"]
    assert "did not tolerate taint example.com/special-taint" in plan.unschedulable["uid-other"]


def test_scenario_37_a_new_daemon_set_buys_nothing_by_itself() -> None:
    """Daemon pods on full nodes stay pending; the next new machine has room for them (SCH-48)."""
    daemons = (make_daemon_set("agent", "2", "1Gi"),)
    full = make_bound_pod("full", "node-1", cpu="4")
    snapshot = real_snapshot(full, nodes=(make_node(),), daemon_sets=daemons)
    quiet = sound(snapshot)
    assert (quiet.machines, quiet.existing, quiet.unschedulable) == ((), {}, {})
    [machine] = sound(real_snapshot(full, make_pod(cpu="1"), daemon_sets=daemons)).machines
    assert machine.requests["cpu"] == 3000


def test_scenario_45_two_replicas_share_one_spot_machine() -> None:
    """ACC-44: the workshop's deployment and Provisioner."""
    selector = {**APPS, keys.CAPACITY_TYPE: keys.SPOT}
    pods = make_pods(2, cpu="1", memory="256M", node_selector=selector)
    pools = (make_pool(labels=APPS, requirements=requirements(BOTH)),)
    [machine] = sound(real_snapshot(*pods, pools=pools)).machines
    assert len(machine.pods) == 2
    assert selector.items() <= machine.labels.items()


def test_scenario_51_replicas_are_packed_onto_the_fewest_machines() -> None:
    [machine] = sound(real_snapshot(*make_pods(10, cpu="1", memory="1536Mi"))).machines
    assert len(machine.pods) == 10


def test_400_pods_spread_softly_by_30_per_host_take_14_machines() -> None:
    """Pods that come later fill the machines that are launching: 30 each again (SCH-50, SCH-73)."""
    spread = make_spread(keys.HOSTNAME, 30, hard=False)
    pods = make_pods(400, cpu="250m", memory="256Mi", labels={"app": "web"}, spread=(spread,))
    large = make_catalogue(tuple(make_type(f"m5.{n}", n) for n in (16, 64, 128)))
    plan = plan_for(make_snapshot(*pods, catalogue=large))
    assert sorted(len(m.pods) for m in plan.machines) == [10, *[30] * 13]
    first = plan_for(make_snapshot(*pods[:200], catalogue=large))
    coming = tuple(map(in_flight, first.machines))
    later = plan_for(make_snapshot(*pods, catalogue=large, machines=coming))
    taken = [*later.existing.values(), *(m.pods for m in later.machines)]
    assert sorted(map(len, taken)) == [10, *[30] * 13]


def test_scenario_53_two_architectures_get_a_machine_each() -> None:
    arches = Expression(keys.ARCH, "In", ("amd64", "arm64"))
    pods = tuple(
        make_pod(f"{arch}-{i}", cpu="1", node_selector={keys.ARCH: arch})
        for arch in arches.values
        for i in range(3)
    )
    pools = (make_pool(requirements=requirements(arches)),)
    plan = sound(real_snapshot(*pods, pools=pools))
    assert {m.labels[keys.ARCH]: len(m.pods) for m in plan.machines} == {"amd64": 3, "arm64": 3}


def test_scenario_54_a_pod_names_the_pool_it_wants() -> None:
    taint = Taint("team", "NoSchedule", "a")
    pools = (make_pool("default", weight=9), make_pool("team-a", taints=(taint,)))
    selector = {keys.PROVISIONER_NAME: "team-a"}
    ours = make_pod("ours", tolerations=(Toleration("team", "Exists"),), node_selector=selector)
    plan = sound(real_snapshot(ours, make_pod("any"), pools=pools))
    assert {m.pool: m.pods for m in plan.machines} == {
        "team-a": ("uid-ours",),
        "default": ("uid-any",),
    }


def test_scenario_61_a_machine_lists_600_types_at_most() -> None:
    """SCH-103: the cheapest of the more than 700 that fit."""
    [machine] = sound(real_snapshot(make_pod())).machines
    assert len(machine.instance_types) == 600
    full = plan_for(real_snapshot(make_pod()), max_instance_types=5000).machines[0]
    assert machine.instance_types == full.instance_types[:600]
    assert len(full.instance_types) > 700


def test_pod_04_the_autoscalers_own_pods_are_left_alone() -> None:
    """Seed 002's affinity of the controller: no verdict, so no event."""
    own = (Expression(keys.PROVISIONER_NAME, "DoesNotExist"),)
    group = (Expression("eks.amazonaws.com/nodegroup", "In", ("ng-v1",)),)
    plan = sound(real_snapshot(make_pod("controller", required_terms=(own, group)), make_pod()))
    assert plan.unschedulable == {}
    assert [machine.pods for machine in plan.machines] == [("uid-pod",)]
