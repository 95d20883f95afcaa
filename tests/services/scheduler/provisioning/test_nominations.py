"""What a promise and a nomination are worth (POD-01, KEP-5278)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from services.scheduler.provisioning.nominations import (
    BIND_SECONDS,
    JOIN_SECONDS,
    LATE_SECONDS,
    MOST_PROMISES,
    PROMISE_SECONDS,
    Homes,
    Order,
    Promise,
    counted_on,
    followed,
    holds,
    honours_nominations,
    newest,
    orders,
    promises_of,
    settle,
)
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, Condition, Machine
from shared.domain.nodes import Node
from shared.domain.workloads.pods import Pod, is_provisionable
from tests.support.planning.builders import (
    make_bound_pod,
    make_machine,
    make_node,
    make_pod,
    make_pods,
    make_snapshot,
)
from tests.support.planning.snapshots import plan_for

OURS = {keys.PROVISIONER_NAME: "default"}
POD = make_pod("web", nominated_node="n")
LONG = 1e6


def homes(*nodes: Node, machines: tuple[Machine, ...] = (), pods: tuple[Pod, ...] = ()) -> Homes:
    return Homes.of({node.name: node for node in nodes}, machines, pods)


def still_holds(home: Homes, *others: Pod, after: float) -> bool:
    """Whether POD's nomination holds ``after`` seconds in which nothing changed."""
    pods = (POD, *others)
    seen = followed(pods, home, followed(pods, home, {}, now=0), now=after)
    return holds("n", seen[POD.uid], home, now=after)


@pytest.mark.parametrize(
    ("version", "honoured"),
    [
        ({"major": "1", "minor": "35", "gitVersion": "v1.35.0"}, True),
        ({"major": "1", "minor": "36+", "gitVersion": "v1.36.1-eks-1a2b3c"}, True),
        ({"major": "2", "minor": "0", "gitVersion": "v2.0.0"}, True),
        ({"major": "1", "minor": "34", "gitVersion": "v1.34.2"}, False),
        ({"major": "1", "minor": "32", "gitVersion": "v1.32.4+dovetail"}, True),
        ({"major": "1", "minor": ""}, False),
        ({"major": None, "minor": ["35"]}, False),
        ({"major": "1", "minor": "³5"}, False),
        ({}, False),
    ],
)
def test_kubernetes_from_1_35_on_and_the_local_cluster_take_nominations(
    version: dict[str, object], honoured: bool
) -> None:
    assert honours_nominations(version) is honoured


def test_a_plan_promises_its_machines_and_what_is_there_to_the_pods_that_wait() -> None:
    bound = make_bound_pod("moving", "old", cpu="1")
    pods = (make_pod("small", cpu="3"), make_pod("large", cpu="7"), bound)
    going = make_node("old", terminating=True)
    snapshot = make_snapshot(*pods, nodes=(make_node("free"), going))
    plan = plan_for(snapshot, bound.uid)
    (machine,) = plan.machines
    promises = promises_of(plan, [machine.name], pods, now=5)
    assert {uid: p.target for uid, p in promises.items()} == {
        "uid-small": "free",
        "uid-large": machine.name,
    }
    assert set(promises_of(plan, [], pods, now=5)) == {"uid-small"}


def test_no_more_promises_are_kept_than_fit() -> None:
    made = {str(number): Promise("n", 0) for number in range(MOST_PROMISES + 2)}
    kept = newest(made)
    assert len(kept) == MOST_PROMISES
    assert "1" not in kept
    assert str(MOST_PROMISES + 1) in kept


@pytest.mark.parametrize(
    "node",
    [
        make_node("other"),
        make_node("n", terminating=True),
        make_node("n", unschedulable=True),
    ],
    ids=["gone", "terminating", "cordoned"],
)
def test_a_nomination_ends_with_its_node(node: Node) -> None:
    assert not still_holds(homes(node), after=0)


def test_a_nomination_ends_when_its_nodes_machine_goes() -> None:
    machine = make_machine(node_name="n", terminating=True)
    assert still_holds(homes(make_node("n")), after=0)
    assert not still_holds(homes(make_node("n"), machines=(machine,)), after=0)


def test_a_node_that_can_take_its_pods_has_a_minute_for_it() -> None:
    home = homes(make_node("n"))
    assert still_holds(home, after=BIND_SECONDS)
    assert not still_holds(home, after=BIND_SECONDS + 1)


@pytest.mark.parametrize(
    "node",
    [make_node("n", ready=False), make_node("n", labels=OURS)],
    ids=["not ready", "not initialised"],
)
def test_a_node_that_comes_up_has_as_long_as_a_machine(node: Node) -> None:
    """Startup taints hold pods back on a node that is ready."""
    assert still_holds(homes(node), after=JOIN_SECONDS)
    assert not still_holds(homes(node), after=JOIN_SECONDS + 1)


def test_the_minute_begins_anew_when_the_node_was_away() -> None:
    up, down = homes(make_node("n")), homes(make_node("n", ready=False))
    seen = followed([POD], up, {}, now=0)
    seen = followed([POD], down, seen, now=50)
    seen = followed([POD], up, seen, now=100)
    assert holds("n", seen[POD.uid], up, now=100 + BIND_SECONDS)


def test_while_pods_leave_the_node_the_time_does_not_count() -> None:
    """kube-scheduler nominates a pod that preempts others, and their grace may be long."""
    victim = make_bound_pod("victim", "n", terminating=True)
    assert still_holds(homes(make_node("n"), pods=(victim,)), victim, after=LONG)


def test_a_pod_that_the_node_has_no_room_for_after_all_waits_no_minute() -> None:
    """The node came up smaller than planned: first come those of higher priority, then the older."""
    node = make_node("n", cpu="4")
    first = make_pod("a", cpu="2", nominated_node="n", created_at=1.0)
    second = make_pod("b", cpu="2", nominated_node="n", created_at=2.0)
    urgent = make_pod("c", cpu="1", nominated_node="n", created_at=3.0, priority=5)
    running = make_bound_pod("r", "n", cpu="500m")
    pods = [first, second, urgent, running]
    seen = followed(pods, homes(node), {}, now=0)
    kept = {u for u, s in seen.items() if holds("n", s, homes(node), now=0)}
    assert kept == {first.uid, urgent.uid}
    not_ready = homes(replace(node, ready=False))
    assert all(s.fits for s in followed(pods, not_ready, {}, now=0).values())


def test_the_planner_counts_a_nominated_pod_on_its_node_or_among_those_that_wait() -> None:
    pods = [POD, make_pod("b", nominated_node="gone"), make_pod("c"), make_bound_pod("d", "n")]
    counted = settle(pods, homes(make_node("n")), {}, now=0)
    assert [(p.name, p.node_name) for p in counted] == [
        ("web", "n"), ("b", ""), ("c", ""), ("d", "n"),
    ]  # fmt: skip
    assert [p.name for p in counted if is_provisionable(p)] == ["b", "c"]


def test_pods_that_run_are_counted_as_the_records_that_they_are() -> None:
    """What is known of a node holds as long as its pods are the same objects, and there may be a hundred thousand."""
    running = [make_bound_pod(f"r{i}", "n", nominated_node="n") for i in range(3)]
    counted = settle([*running, POD], homes(make_node("n")), {}, now=0)
    assert all(after is before for after, before in zip(counted, running, strict=False))
    promises = {pod.uid: Promise("n", LONG) for pod in (*running, POD)}
    assert counted_on([*running, POD], promises, {}, homes(make_node("n")), {}, now=0) == {}


def test_room_that_is_held_for_a_nominated_pod_is_planned_for_nobody_else() -> None:
    held = make_pod("held", cpu="3", nominated_node="n")
    pods = settle([held, make_pod("next", cpu="2")], homes(make_node("n", cpu="4")), {}, now=0)
    plan = plan_for(make_snapshot(*pods, nodes=(make_node("n", cpu="4"),)))
    assert plan.existing == {}
    assert [m.pods for m in plan.machines] == [("uid-next",)]


def wanted(home: Homes, *pods: Pod, refused: str = "", target: str = "n") -> list[Order]:
    """The orders for pods that were all promised ``target``."""
    promises = {pod.uid: Promise(target, LONG) for pod in pods}
    return orders(
        {pod.uid: pod for pod in pods}, promises, home, {}, {p.uid: refused for p in pods}, now=0
    )


WAITING = make_pod("web")
MACHINE = make_machine("m", provider_id="aws:///us-west-2a/i-1")


def test_pods_of_a_machine_are_nominated_when_its_node_joins_ready_or_not() -> None:
    """Before it is ready: later, kube-scheduler has placed whatever it likes there."""
    assert wanted(homes(machines=(MACHINE,)), WAITING, target="m") == []
    joined = make_node("n", provider_id=MACHINE.provider_id, labels=OURS, ready=False)
    assert wanted(homes(joined, machines=(MACHINE,)), WAITING, target="m") == [Order(WAITING, "n")]
    registered = replace(MACHINE, provider_id="", node_name="n")
    assert wanted(homes(joined, machines=(registered,)), WAITING, target="m") == [
        Order(WAITING, "n")
    ]


@pytest.mark.parametrize(("ready", "count"), [(True, 1), (False, 0)])
def test_a_node_that_was_there_must_be_ready(ready: bool, count: int) -> None:
    assert len(wanted(homes(make_node("n", ready=ready)), WAITING)) == count


def test_an_initialised_node_that_is_not_ready_is_not_coming_up() -> None:
    machine = replace(MACHINE, node_name="n", conditions={INITIALIZED: Condition("True")})
    node = make_node("n", labels=OURS, ready=False)
    assert wanted(homes(node, machines=(machine,)), WAITING, target="m") == []


def test_bound_nominated_and_refused_pods_are_left_alone() -> None:
    home = homes(make_node("n"), make_node("n2"))
    assert wanted(home, make_pod("a", nominated_node="n2")) == []
    assert wanted(home, make_pod("a", unschedulable=False)) == []
    assert wanted(home, WAITING, refused="n") == []
    assert wanted(home, WAITING, refused="n2") == [Order(WAITING, "n")]


def test_ends_come_first_then_nodes_in_the_order_in_which_they_joined_then_ready_ones() -> None:
    """A pod of a node that is not ready yet can still be nominated in time; all pods of one node together."""
    second = make_node("a", labels=OURS, ready=False, created_at=20.0)
    first = make_node("b", labels=OURS, ready=False, created_at=10.0)
    one, two, late, three, lost = make_pods(5)
    lost = replace(lost, nominated_node="gone")
    targets = {two.uid: "a", late.uid: "n", one.uid: "b", three.uid: "b"}
    promises = {uid: Promise(target, LONG) for uid, target in targets.items()}
    pods = {pod.uid: pod for pod in (one, two, late, three, lost)}
    found = orders(pods, promises, homes(second, first, make_node("n")), {}, {}, now=0)
    assert found[0] == Order(lost, "")
    assert [order.node for order in found[1:]] == ["b", "b", "a", "n"]


def counted(home: Homes, *pods: Pod, target: str, refused: str = "", since: float = 0) -> list[str]:
    """The places of pods that were all promised ``target`` at 0, ``since`` seconds after its node could take pods."""
    promises = {pod.uid: Promise(target, PROMISE_SECONDS) for pod in pods}
    bindable = dict.fromkeys(home.nodes, 0.0)
    refusals = {pod.uid: refused for pod in pods}
    return list(counted_on(pods, promises, refusals, home, bindable, now=since).values())


def test_a_promised_pod_counts_on_its_machine_then_on_its_joining_node() -> None:
    """To plan it once more beside pods that are nominated already broke up what one plan had put together."""
    machine = make_machine("m", provider_id="aws:///us-west-2a/i-1")
    node = make_node("n", labels=OURS, ready=False, provider_id=machine.provider_id)
    assert counted(homes(machines=(machine,)), WAITING, target="m") == ["m"]
    assert counted(homes(node, machines=(machine,)), WAITING, target="m", since=600) == ["n"]


def test_a_promise_of_a_machine_that_goes_or_is_gone_counts_nothing() -> None:
    going = make_machine("m", terminating=True)
    assert counted(homes(machines=(going,)), WAITING, target="m") == []
    assert counted(homes(), WAITING, target="m") == []
    assert counted(homes(make_node("n")), WAITING, target="n", since=PROMISE_SECONDS) == []


def test_once_its_node_takes_pods_a_promise_counts_while_bindings_are_being_written() -> None:
    home = homes(make_node("n"))
    assert counted(home, WAITING, target="n", since=LATE_SECONDS) == ["n"]
    assert counted(home, WAITING, target="n", since=LATE_SECONDS + 1) == []


def test_a_promise_that_was_refused_or_found_no_room_counts_nothing() -> None:
    large = [make_pod(name, cpu="3") for name in ("a", "b")]
    large = [replace(pod, unschedulable=True) for pod in large]
    home = homes(make_node("n"))
    assert counted(home, WAITING, target="n", refused="n") == []
    assert counted(home, *large, target="n") == ["n"]
