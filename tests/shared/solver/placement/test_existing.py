"""Nodes, and machines without nodes, as placement targets (SCH-47, SCH-50..SCH-53)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.workloads.pods import Owner
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    ZONES,
    amounts,
    make_bound_pod,
    make_daemon_set,
    make_machine,
    make_node,
    make_pod,
    make_pods,
    make_snapshot,
    make_type,
)
from tests.support.planning.snapshots import plan_for, pods_per_machine

OURS = {keys.PROVISIONER_NAME: "default"}
INITIALIZED = {**OURS, keys.INITIALIZED: "true"}


def test_sch_32_initialised_nodes_come_first_then_names() -> None:
    nodes = (
        make_node("a-booting", labels=OURS),
        make_node("c-ready", labels=INITIALIZED),
        make_node("b-ready", labels=INITIALIZED),
    )
    plan = plan_for(make_snapshot(*make_pods(3, cpu="3"), nodes=nodes))
    assert [plan.existing[n] for n in ("b-ready", "c-ready", "a-booting")] == [
        ("uid-pod-00000",), ("uid-pod-00001",), ("uid-pod-00002",),
    ]  # fmt: skip


def test_sch_50_bound_pods_take_their_room() -> None:
    pods = (make_pod(cpu="2"), make_bound_pod("busy", "node-1", cpu="3"))
    assert plan_for(make_snapshot(*pods, nodes=(make_node(),))).existing == {}


def test_sch_09_an_existing_node_must_define_every_label() -> None:
    selector = {keys.AWS_PREFIX + "instance-family": "m5"}
    snapshot = make_snapshot(make_pod(node_selector=selector), nodes=(make_node(),))
    plan = plan_for(snapshot)
    assert (plan.existing, pods_per_machine(plan)) == ({}, [1])


def test_a_host_name_selector_finds_its_node_and_never_a_new_machine() -> None:
    selector = {keys.HOSTNAME: "node-1"}
    pods = (make_pod("fits", node_selector=selector), make_pod("b", "9", node_selector=selector))
    plan = plan_for(make_snapshot(*pods, nodes=(make_node(),)))
    assert plan.existing == {"node-1": ("uid-fits",)}
    assert "hostname-placeholder-0001" in plan.unschedulable["uid-b"]


def test_sch_52_boot_taints_are_ignored_until_initialised() -> None:
    taints = (Taint("node.kubernetes.io/not-ready", "NoSchedule"), Taint("warming", "NoSchedule"))
    machine = make_machine(
        node_name="node-1", provider_id="aws:///a/i-1", startup_taints=(taints[1],)
    )
    booting = make_node(labels=OURS, taints=taints, provider_id="aws:///a/i-1")
    snapshot = make_snapshot(make_pod(), nodes=(booting,), machines=(machine,))
    assert plan_for(snapshot).existing == {"node-1": ("uid-pod",)}
    assert plan_for(make_snapshot(make_pod(), nodes=(booting,))).existing == {}, "without a machine"
    ready = make_node(labels=INITIALIZED, taints=taints, provider_id="aws:///a/i-1")
    snapshot = make_snapshot(make_pod(), nodes=(ready,), machines=(machine,))
    assert plan_for(snapshot).existing == {}


@pytest.mark.parametrize("leaving", [{"terminating": True}, {"unschedulable": True}])
def test_sch_53_a_leaving_node_is_no_target(leaving: dict[str, Any]) -> None:
    snapshot = make_snapshot(make_pod(), nodes=(make_node(**leaving),))
    assert plan_for(snapshot).existing == {}


def test_sch_53_a_node_whose_machine_is_deleted_is_no_target() -> None:
    machine = make_machine(node_name="node-1", terminating=True)
    snapshot = make_snapshot(make_pod(), nodes=(make_node(),), machines=(machine,))
    assert plan_for(snapshot).existing == {}


def test_sch_51_the_machine_tells_what_its_booting_node_does_not() -> None:
    gpu = "nvidia.com/gpu"
    machine = make_machine(node_name="node-1", allocatable={gpu: 1, "cpu": 64_000})
    pod = make_pod(requests={**amounts(cpu="1", pods="1"), gpu: 1})
    booting = make_node(labels=OURS)
    snapshot = make_snapshot(pod, nodes=(booting,), machines=(machine,))
    assert plan_for(snapshot).existing == {"node-1": ("uid-pod",)}
    ready = make_node(labels=INITIALIZED)
    snapshot = make_snapshot(pod, nodes=(ready,), machines=(machine,))
    assert plan_for(snapshot).existing == {}


def test_an_unlaunched_machine_takes_what_its_cheapest_type_takes() -> None:
    pods = make_pods(5, cpu="1")
    plan = plan_for(make_snapshot(*pods, machines=(make_machine(),)))
    assert len(plan.existing["default-abc"]) == 4
    assert pods_per_machine(plan) == [1]


def test_what_was_promised_to_an_unlaunched_machine_is_placed_on_it_again() -> None:
    promised = make_machine(requests=amounts(cpu="4", memory="1Gi", pods="4"))
    plan = plan_for(make_snapshot(*make_pods(4, cpu="1"), machines=(promised,)))
    assert pods_per_machine(plan) == []
    assert len(plan.existing["default-abc"]) == 4


def test_a_launched_machine_counts_with_its_allocatable() -> None:
    launched = make_machine(
        allocatable=amounts(cpu="2", memory="8Gi", pods="29"),
        labels={**OURS, keys.INSTANCE_TYPE: "m5.x004", keys.ZONE: ZONES[0]},
    )
    plan = plan_for(make_snapshot(*make_pods(3, cpu="1"), machines=(launched,)))
    assert len(plan.existing["default-abc"]) == 2


def test_machines_that_are_alike_but_for_what_they_got_are_each_their_own_size() -> None:
    """Cached data of equal machines does not change their own free resources and names (SCH-50)."""
    waiting = make_machine("a-waiting")
    small = make_machine("b-small", allocatable=amounts(cpu="1", memory="4Gi", pods="20"))
    large = make_machine("c-large", allocatable=amounts(cpu="30", memory="90Gi", pods="200"))
    machines = (waiting, small, large)
    both = plan_for(make_snapshot(*make_pods(2, cpu="900m"), machines=(small, large)))
    assert both.existing == {"b-small": ("uid-pod-00000",), "c-large": ("uid-pod-00001",)}
    plan = plan_for(make_snapshot(make_pod(cpu="20"), machines=machines))
    assert plan.existing == {"c-large": ("uid-pod",)}


def test_a_machine_whose_zone_is_open_takes_no_pod_that_needs_one() -> None:
    zones = Expression(keys.ZONE, "In", ZONES[:2])
    machine = make_machine(requirements=(*make_machine().requirements, zones))
    pod = make_pod(node_selector={keys.ZONE: ZONES[0]})
    assert plan_for(make_snapshot(pod, machines=(machine,))).existing == {}
    either = Expression(keys.ZONE, "In", ZONES)
    pod = make_pod(required_terms=((either,),))
    assert len(plan_for(make_snapshot(pod, machines=(machine,))).existing) == 1


def test_a_deleted_machine_is_no_target() -> None:
    machine = make_machine(terminating=True)
    assert plan_for(make_snapshot(make_pod(), machines=(machine,))).existing == {}


def test_sch_47_daemons_still_to_come_take_their_room() -> None:
    daemons = (make_daemon_set(cpu="2"),)
    snapshot = make_snapshot(make_pod(cpu="3"), nodes=(make_node(),), daemon_sets=daemons)
    assert plan_for(snapshot).existing == {}
    owner = Owner("DaemonSet", "agent", "d")
    there = make_bound_pod("agent-x", "node-1", cpu="1", owner=owner)
    pods = (make_pod(cpu="2"), there)
    snapshot = make_snapshot(*pods, nodes=(make_node(),), daemon_sets=daemons)
    assert plan_for(snapshot).existing == {"node-1": ("uid-pod",)}


def test_scenario_37_daemons_that_no_longer_fit_do_not_make_nodes() -> None:
    """A full node takes no pods, and a pending daemon pod is not planned (SCH-48, SCH-62)."""
    daemon = make_pod("agent", cpu="8", owner=Owner("DaemonSet", "agent", "d"))
    snapshot = make_snapshot(
        daemon, make_pod("small"), nodes=(make_node(),), daemon_sets=(make_daemon_set(cpu="8"),)
    )
    plan = plan_for(snapshot)
    assert plan.existing == {}
    assert [m.pods for m in plan.machines] == [("uid-small",)]


def test_sch_90_ports_of_running_pods_are_taken() -> None:
    port = (("TCP", "", 80),)
    pods = (make_pod(host_ports=port), make_bound_pod("web", "node-1", host_ports=port))
    assert plan_for(make_snapshot(*pods, nodes=(make_node(),))).existing == {}


def test_sch_53_pods_moved_off_a_node_leave_no_trace_in_the_count() -> None:
    """POD-09: the moved pod may go to a node that it does not occupy itself."""
    nodes = (make_node("old", terminating=True), make_node("new"))
    plan = plan_for(make_snapshot(make_bound_pod("m", "old", cpu="4"), nodes=nodes), "uid-m")
    assert plan.existing == {"new": ("uid-m",)}


FAMILY = keys.AWS_PREFIX + "instance-family"


def _unlaunched(*names: str, **changes: Any) -> Machine:
    listed = Expression(keys.INSTANCE_TYPE, "In", names)
    return make_machine(requirements=(*DEFAULT_REQUIREMENTS, listed), **changes)


@pytest.mark.parametrize(
    ("names", "wanted", "is_taken"),
    [
        (("c5.large", "m5.large"), Expression(FAMILY, "NotIn", ("c5",)), False),
        (("c5.large", "m5.large"), Expression(FAMILY, "DoesNotExist"), False),
        (("c5.large", "m5.large"), Expression(FAMILY, "NotIn", ("r5",)), True),
        (("c5.large", "m5.large"), Expression(FAMILY, "In", ("m5",)), False),
        (("c5.large", "m5.large"), Expression(FAMILY, "In", ("c5", "m5")), True),
        (("m5.large",), Expression(FAMILY, "NotIn", ("c5",)), True),
        (("m5.large",), Expression("gpu", "DoesNotExist"), True),
        (("m5.large", "r5.large"), Expression("gpu", "DoesNotExist"), False),
        (("m5.large", "r5.large"), Expression("gpu", "Exists"), False),
        (("m5.large",), Expression(keys.ZONE, "NotIn", (ZONES[0],)), False),
        (("m5.large",), Expression("team", "NotIn", ("red",)), True),
        (("m5.large",), Expression("team", "Exists"), False),
    ],
)
def test_sch_09_an_unlaunched_machine_has_the_labels_of_the_types_it_lists(
    names: tuple[str, ...], wanted: Expression, is_taken: bool
) -> None:
    """A label with an open value is not absent: every possible value must suit the pod."""
    gpu = make_type("r5.large", labels={"gpu": ("yes",)})
    types = (make_type("c5.large"), make_type("m5.large"), gpu)
    pod = make_pod(required_terms=((wanted,),))
    plan = plan_for(
        make_snapshot(pod, machines=(_unlaunched(*names),), catalogue=Catalogue("r", "1", types))
    )
    assert bool(plan.existing) == is_taken


def test_sch_09_a_value_that_is_only_excluded_leaves_the_others_open() -> None:
    excluded = Expression(FAMILY, "NotIn", ("r5",))
    requirements = (*_unlaunched("c5.large", "m5.large").requirements, excluded)
    types = (make_type("c5.large"), make_type("m5.large"))
    pod = make_pod(required_terms=((Expression(FAMILY, "NotIn", ("c5",)),),))
    machine = make_machine(requirements=requirements)
    snapshot = make_snapshot(pod, machines=(machine,), catalogue=Catalogue("r", "1", types))
    assert plan_for(snapshot).existing == {}


def test_a_node_that_is_not_registered_yet_counts_as_its_machine() -> None:
    """A node lacks labels until registration; no second machine is planned meanwhile (SCH-50, LCH-73)."""
    launched = make_machine(
        provider_id="aws:///a/i-1",
        allocatable=amounts(cpu="2", memory="8Gi", pods="29"),
        labels={**OURS, keys.INSTANCE_TYPE: "m5.x004", keys.CAPACITY_TYPE: keys.ON_DEMAND},
    )
    joined = make_node(labels=OURS, provider_id="aws:///a/i-1")
    pod = make_pod(node_selector={keys.CAPACITY_TYPE: keys.ON_DEMAND})
    plan = plan_for(make_snapshot(pod, nodes=(joined,), machines=(launched,)))
    assert (plan.existing, pods_per_machine(plan)) == ({"default-abc": ("uid-pod",)}, [])
    marked = {**launched.labels, keys.REGISTERED: "true"}
    registered = make_node(labels=marked, provider_id="aws:///a/i-1")
    plan = plan_for(make_snapshot(pod, nodes=(registered,), machines=(launched,)))
    assert plan.existing == {"node-1": ("uid-pod",)}


def test_what_waits_for_a_node_that_is_not_registered_yet_takes_its_room_there() -> None:
    """Nominated to the node, or promised to the machine before it has one: counted on neither, the room was promised
    to others once more."""
    size = amounts(cpu="4", memory="8Gi", pods="29")
    machine = make_machine("m", provider_id="aws:///us-west-2a/i-1", allocatable=size)
    node = make_node("n", labels=OURS, ready=False, provider_id=machine.provider_id)
    for place, taken in (("n", True), ("m", True), ("other", False)):
        pods = (make_pod(cpu="2"), make_bound_pod("waits", place, cpu="3"))
        snapshot = make_snapshot(*pods, nodes=(node,), machines=(machine,))
        assert plan_for(snapshot).existing == ({} if taken else {"m": ("uid-pod",)})
