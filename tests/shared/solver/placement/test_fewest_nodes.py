"""The order of pods and targets, pools, taints, limits, daemons and ports."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Expression, Taint, Toleration
from shared.domain.pools.generations import V1
from shared.domain.pools.usage import Counting
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
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
)
from tests.support.planning.snapshots import plan_for, pods_per_machine

DEDICATED = Taint("dedicated", "NoSchedule", "gpu")
TOLERATES = Toleration("dedicated", "Equal", "gpu", "NoSchedule")
V1_CLASS = make_node_class(generation_api=V1)


def one_size(cpu: int = 4) -> dict[str, object]:
    """A catalogue with a single type."""
    return {"catalogue": make_catalogue((make_type("m5.only", cpu, 64),))}


def test_sch_30_pods_are_placed_by_cpu_then_memory_then_age_then_uid() -> None:
    pods = (
        make_pod("d", cpu="1", memory="1Gi", created_at=5.0),
        make_pod("c", cpu="1", memory="1Gi", created_at=5.0),
        make_pod("b", cpu="1", memory="1Gi", created_at=1.0),
        make_pod("a", cpu="1", memory="2Gi", created_at=9.0),
        make_pod("z", cpu="2", memory="1Gi", created_at=9.0),
    )
    [machine] = plan_for(make_snapshot(*pods)).machines
    assert machine.pods == ("uid-z", "uid-a", "uid-b", "uid-c", "uid-d")


def test_sch_31_a_pod_that_fails_does_not_hold_up_the_rest() -> None:
    plan = plan_for(make_snapshot(make_pod("huge", cpu="500"), make_pod("small")))
    assert pods_per_machine(plan) == [1]
    assert list(plan.unschedulable) == ["uid-huge"]


def test_sch_34_nothing_placed_is_moved_for_a_later_pod() -> None:
    """A placed pod is not moved: the large pod takes node-1 first, where alone the small one could go."""
    nodes = (make_node("node-1", cpu="2"), make_node("node-2", cpu="2"))
    small = make_pod("small", cpu="1", node_selector={keys.HOSTNAME: "node-1"})
    plan = plan_for(make_snapshot(make_pod("big", cpu="1500m"), small, nodes=nodes, pools=()))
    assert plan.existing == {"node-1": ("uid-big",)}
    assert list(plan.unschedulable) == ["uid-small"]


def test_bat_06_a_pod_that_was_bound_meanwhile_is_not_provided_for_twice() -> None:
    """Nodes and pods arrive through different watches; in either order no machine is planned."""
    assert plan_for(make_snapshot(make_bound_pod("seen-first", "node-1"))).machines == ()
    late = plan_for(make_snapshot(make_pod("seen-late"), nodes=(make_node(),)))
    assert (late.existing, late.machines) == ({"node-1": ("uid-seen-late",)}, ())


def test_sch_32_existing_capacity_comes_first() -> None:
    plan = plan_for(make_snapshot(make_pod(), nodes=(make_node(),)))
    assert (plan.existing, plan.machines) == ({"node-1": ("uid-pod",)}, ())


def test_sch_32_the_open_claim_with_the_fewest_pods_is_tried_first() -> None:
    """With two machines of 3 and 1 pods, the next small pods go to the second until both have equally many."""
    pods = (
        *make_pods(3, "a", cpu="1300m"),
        *make_pods(1, "b", cpu="1200m"),
        *make_pods(2, "c", cpu="50m"),
    )
    [first, second] = plan_for(make_snapshot(*pods, **one_size())).machines
    assert [uid[4] for uid in first.pods] == ["a", "a", "a"]
    assert [uid[4] for uid in second.pods] == ["b", "c", "c"]


def test_sch_33_every_pools_reason_is_joined() -> None:
    pools = (make_pool("one", taints=(DEDICATED,)), make_pool("two", taints=(DEDICATED,)))
    text = plan_for(make_snapshot(make_pod(), pools=pools)).unschedulable["uid-pod"]
    cause = "daemonset overhead={}, did not tolerate taint dedicated=gpu:NoSchedule"
    assert text == (
        f'incompatible with provisioner "two", {cause};'
        f' incompatible with provisioner "one", {cause}'
    )


def test_sch_33_a_v1_pool_is_called_nodepool() -> None:
    pool = make_pool(generation_api=V1, taints=(DEDICATED,))
    text = plan_for(
        make_snapshot(make_pod(), pools=(pool,), node_classes=(V1_CLASS,))
    ).unschedulable["uid-pod"]
    assert text.startswith('incompatible with nodepool "default"')


def test_scenario_25_a_tainted_pool_serves_only_pods_that_tolerate() -> None:
    """SCH-27: tolerations."""
    pools = (make_pool("special", weight=10, taints=(DEDICATED,)), make_pool("plain"))
    pods = (make_pod("any"), make_pod("gpu", cpu="1", tolerations=(TOLERATES,)))
    plan = plan_for(make_snapshot(*pods, pools=pools))
    assert {m.pool: m.pods for m in plan.machines} == {
        "plain": ("uid-any",),
        "special": ("uid-gpu",),
    }


def test_sch_27_startup_taints_do_not_matter() -> None:
    pool = make_pool(startup_taints=(DEDICATED,))
    assert len(plan_for(make_snapshot(make_pod(), pools=(pool,))).machines) == 1


def test_scenario_10_a_preferred_taint_is_tolerated_after_relaxation() -> None:
    """SCH-23 (6): taints with PreferNoSchedule are tolerated last of all."""
    taint = Taint("server", PREFER_NO_SCHEDULE, "true")
    [machine] = plan_for(make_snapshot(make_pod(), pools=(make_pool(taints=(taint,)),))).machines
    assert machine.taints == (taint,)


def test_np_22_the_heavier_pool_wins_then_the_later_name() -> None:
    """SCH-104: also when a lighter pool is cheaper."""
    pools = (make_pool("a", weight=5), make_pool("b"), make_pool("c"))
    assert plan_for(make_snapshot(make_pod(), pools=pools)).machines[0].pool == "a"
    assert plan_for(make_snapshot(make_pod(), pools=pools[1:])).machines[0].pool == "c"


def test_sch_104_an_open_claim_of_a_light_pool_comes_before_a_new_claim() -> None:
    heavy = make_pool("heavy", weight=9, taints=(DEDICATED,))
    pods = (make_pod("first", cpu="1"), make_pod("second", cpu="500m", tolerations=(TOLERATES,)))
    plan = plan_for(make_snapshot(*pods, pools=(heavy, make_pool("light"))))
    assert [(m.pool, len(m.pods)) for m in plan.machines] == [("light", 2)]


def test_scenario_26_limits_stop_new_machines_and_say_so() -> None:
    """SCH-100: limits during a round; SCH-101: types beyond the limits."""
    pool = make_pool(limits=amounts(cpu="8"))
    spread = (make_spread(keys.HOSTNAME),)
    pods = make_pods(3, cpu="3", labels={"app": "web"}, spread=spread)
    plan = plan_for(make_snapshot(*pods, pools=(pool,), **one_size()))
    assert pods_per_machine(plan) == [1, 1]
    [text] = plan.unschedulable.values()
    assert text == 'all available instance types exceed limits for provisioner: "default"'


def test_sch_101_types_above_the_limit_are_left_out() -> None:
    pool = make_pool(limits=amounts(cpu="8"))
    [machine] = plan_for(make_snapshot(make_pod(), pools=(pool,))).machines
    assert machine.instance_types == ("m5.x002", "m5.x004", "m5.x008")


def test_sch_100_a_new_claim_counts_with_its_largest_type() -> None:
    pool = make_pool(limits=amounts(cpu="12"))
    pods = make_pods(2, labels={"app": "web"}, spread=(make_spread(keys.HOSTNAME),))
    [first, second] = plan_for(make_snapshot(*pods, pools=(pool,))).machines
    assert first.instance_types[-1] == "m5.x008"
    assert second.instance_types[-1] == "m5.x004"


def test_sch_100_machines_that_go_count_all_but_one() -> None:
    """A drain that a budget blocks does not double the pool; the pods of one machine still get a replacement first."""
    pool = make_pool(limits=amounts(cpu="8"))
    size: dict[str, Any] = {"capacity": amounts(cpu="4"), "terminating": True}
    going = tuple(make_machine(n, provider_id=f"aws:///z/i-{n}", **size) for n in ("a", "b", "c"))
    pod = make_pod(cpu="3")
    assert not plan_for(make_snapshot(pod, pools=(pool,), machines=going)).machines
    assert plan_for(make_snapshot(pod, pools=(pool,), machines=going[:2])).machines
    as_karpenter = Counting(terminating=False)
    plan = plan_for(make_snapshot(pod, pools=(pool,), machines=going), counting=as_karpenter)
    assert plan.machines


def test_sch_100_nodes_of_the_pool_count_against_its_limits() -> None:
    node = make_node(labels={keys.PROVISIONER_NAME: "default", keys.INITIALIZED: "true"})
    snapshot = make_snapshot(
        make_pod(cpu="4"), pools=(make_pool(limits=amounts(cpu="7")),), nodes=(node,)
    )
    taken = replace(snapshot, pods=(*snapshot.pods, make_pod("x", cpu="1", node_name="node-1")))
    assert (
        plan_for(taken)
        .unschedulable["uid-pod"]
        .endswith(
            "(no instance type has enough resources),"
            " 6 instance types were excluded because they would breach limits"
        )
    )


def test_sch_101_a_limit_on_nodes() -> None:
    pods = make_pods(2, labels={"app": "web"}, spread=(make_spread(keys.HOSTNAME),))
    plan = plan_for(make_snapshot(*pods, pools=(make_pool(limits={"nodes": 1}),)))
    assert pods_per_machine(plan) == [1]
    assert "node limits have been exhausted" in next(iter(plan.unschedulable.values()))


def test_sch_46_daemon_overhead_shrinks_every_type() -> None:
    daemons = (make_daemon_set(cpu="500m"),)
    [machine] = plan_for(make_snapshot(make_pod(cpu="1800m"), daemon_sets=daemons)).machines
    assert machine.instance_types[0] == "m5.x004"


def test_scenario_38_a_daemon_that_avoids_fargate_still_counts() -> None:
    """SCH-46: an undefined label satisfies NotIn."""
    term = (Expression("eks.amazonaws.com/compute-type", "NotIn", ("fargate",)),)
    daemons = (make_daemon_set(cpu="500m", required_terms=(term,)),)
    [machine] = plan_for(make_snapshot(make_pod(), daemon_sets=daemons)).machines
    assert machine.requests["cpu"] == 600


def test_sch_46_daemons_that_cannot_run_there_do_not_count() -> None:
    elsewhere = make_daemon_set("arm", node_selector={keys.ARCH: "arm64"})
    pool = make_pool(taints=(DEDICATED,))
    intolerant = make_daemon_set("plain")
    pod = make_pod(tolerations=(TOLERATES,))
    snapshot = make_snapshot(pod, pools=(pool,), daemon_sets=(elsewhere, intolerant))
    assert plan_for(snapshot).machines[0].requests["cpu"] == 100


def test_sch_46_overhead_depends_on_the_type_a_daemon_runs_on() -> None:
    gpu = keys.AWS_PREFIX + "instance-gpu-count"
    types = (
        make_type("m5.plain", 4, 16, 100),
        make_type("g5.gpu", 4, 16, 900, labels={gpu: ("1",)}),
    )
    term = (Expression(gpu, "Exists"),)
    daemons = (make_daemon_set(cpu="1", required_terms=(term,)),)
    snapshot = make_snapshot(
        make_pod(cpu="3500m"), daemon_sets=daemons, catalogue=make_catalogue(types)
    )
    [machine] = plan_for(snapshot).machines
    assert machine.instance_types == ("m5.plain",)


def test_sch_90_two_pods_with_one_host_port_need_two_machines() -> None:
    pods = make_pods(3, host_ports=(("TCP", "0.0.0.0", 80),))
    assert pods_per_machine(plan_for(make_snapshot(*pods))) == [1, 1, 1]


def test_sch_90_other_protocols_and_addresses_do_not_conflict() -> None:
    pods = (
        make_pod("a", host_ports=(("TCP", "10.0.0.1", 80),)),
        make_pod("b", host_ports=(("UDP", "10.0.0.1", 80),)),
        make_pod("c", host_ports=(("TCP", "10.0.0.2", 80),)),
    )
    assert pods_per_machine(plan_for(make_snapshot(*pods))) == [3]


def test_sch_90_a_daemons_host_port_is_taken_on_new_machines() -> None:
    """SCH-40: order of checks for a new machine."""
    daemons = (make_daemon_set(host_ports=(("TCP", "", 80),)),)
    pod = make_pod(host_ports=(("TCP", "", 80),))
    verdict = plan_for(make_snapshot(pod, daemon_sets=daemons)).unschedulable["uid-pod"]
    taken = "checking host port usage, TCP port 80 on 0.0.0.0 is in use by daemon set "
    assert verdict.endswith(taken + daemons[0].key)


def test_sch_43_a_port_of_daemons_is_not_blamed_for_what_does_not_fit_anyway() -> None:
    daemons = (make_daemon_set(host_ports=(("TCP", "", 80),)),)
    pod = make_pod(cpu="5000", host_ports=(("TCP", "", 80),))
    verdict = plan_for(make_snapshot(pod, daemon_sets=daemons)).unschedulable["uid-pod"]
    assert "(no instance type has enough resources)" in verdict


def test_sch_12_min_values_keep_enough_kinds_of_machines() -> None:
    many = Expression(keys.AWS_PREFIX + "instance-size", "Exists", (), 7)
    pool = make_pool(generation_api=V1, requirements=(*DEFAULT_REQUIREMENTS, many))
    pods = (make_pod("small"), make_pod("big", cpu="3"))
    plan = plan_for(make_snapshot(*pods, pools=(pool,), node_classes=(V1_CLASS,)))
    assert [m.pods for m in plan.machines] == [("uid-small",)]
    assert "minValues" in plan.unschedulable["uid-big"]


def test_np_23_a_static_pool_takes_no_pods() -> None:
    """A static pool gets no machines for pods (NP-13)."""
    pool = make_pool(generation_api=V1, replicas=3)
    plan = plan_for(make_snapshot(make_pod(), pools=(pool,), node_classes=(V1_CLASS,)))
    assert plan.machines == ()
    assert "static" in plan.unschedulable["uid-pod"]


def test_map_01_a_pod_that_asks_for_one_generations_pool_gets_no_other() -> None:
    """Both pools are called default."""
    pools = (make_pool(), make_pool(generation_api=V1, uid="new"))
    classes = (make_node_class(), V1_CLASS)
    for key, kind in ((keys.PROVISIONER_NAME, "Provisioner"), (keys.NODE_POOL, "NodePool")):
        pod = make_pod(node_selector={key: "default"})
        (machine,) = plan_for(make_snapshot(pod, pools=pools, node_classes=classes)).machines
        assert machine.pool_key == f"{kind}/default"


def test_map_01_namesakes_of_two_generations_are_two_pools_with_two_classes() -> None:
    """Each plans with its own class and labels its machine with its own key."""
    old = make_pool(weight=1, limits={"cpu": 4000})
    new = make_pool(generation_api=V1, uid="new")
    pods = tuple(make_pod(f"p{i}", cpu="3") for i in range(3))
    snapshot = make_snapshot(*pods, pools=(old, new), node_classes=(make_node_class(), V1_CLASS))
    machines = plan_for(snapshot).machines
    assert {m.pool_key for m in machines} == {"Provisioner/default", "NodePool/default"}
    for machine in machines:
        is_new = machine.pool_key == "NodePool/default"
        assert (keys.NODE_POOL in machine.labels) == is_new
        assert (keys.PROVISIONER_NAME in machine.labels) != is_new
        assert machine.labels.get(keys.NODE_CLASS) == ("default" if is_new else None)
