"""What is kept of nodes from plan to plan never changes a plan: a cluster that changes is planned as if it were new."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.nodes import Node
from shared.domain.snapshot import Snapshot
from shared.domain.workloads import kept
from shared.solver.placement import known_nodes
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_daemon_set,
    make_node,
    make_pods,
    make_snapshot,
    make_spread,
    make_term,
)
from tests.support.planning.snapshots import plan_for

NODES = ("a", "b", "c", "d")
INITIALIZED = {keys.PROVISIONER_NAME: "default", keys.INITIALIZED: "true"}


def start() -> Snapshot:
    """Four nodes in two zones with a pod each, and pods that wait: some must be apart, some spread over zones."""
    nodes = tuple(
        make_node(name, labels={**INITIALIZED, keys.ZONE: ZONES[number % 2]})
        for number, name in enumerate(NODES)
    )
    bound = (make_bound_pod(f"on-{name}", name, cpu="1", labels={"app": "web"}) for name in NODES)
    apart = make_pods(2, "apart", labels={"app": "web"}, anti_affinity=(make_term(keys.HOSTNAME),))
    even = make_pods(3, "even", labels={"app": "web"}, spread=(make_spread(keys.ZONE),))
    with_port = make_pods(2, "port", host_ports=(("TCP", "0.0.0.0", 80),))
    return make_snapshot(*bound, *apart, *even, *with_port, nodes=nodes)


def of_node(change: Callable[[Node, Random], Node]) -> Callable[[Snapshot, Random], Snapshot]:
    def apply(snapshot: Snapshot, random: Random) -> Snapshot:
        nodes = [*snapshot.nodes]
        index = random.randrange(len(nodes))
        nodes[index] = change(nodes[index], random)
        return replace(snapshot, nodes=tuple(nodes))

    return apply


def bind(snapshot: Snapshot, random: Random) -> Snapshot:
    pod = make_bound_pod(
        f"more-{random.random()}", random.choice(NODES), cpu=random.choice(("1", "2")),
        labels={"app": random.choice(("web", "db"))},
        host_ports=random.choice(((), (("TCP", "0.0.0.0", 80),))),
    )  # fmt: skip
    return replace(snapshot, pods=(*snapshot.pods, pod))


def end(snapshot: Snapshot, random: Random) -> Snapshot:
    bound = [pod for pod in snapshot.pods if pod.node_name]
    gone = random.choice(bound) if bound else None
    return replace(snapshot, pods=tuple(pod for pod in snapshot.pods if pod is not gone))


def daemons(snapshot: Snapshot, random: Random) -> Snapshot:
    count = random.randrange(3)
    found = tuple(make_daemon_set(f"agent-{number}", cpu="500m") for number in range(count))
    return replace(snapshot, daemon_sets=found)


def moved(node: Node, random: Random) -> Node:
    return replace(node, labels={**node.labels, keys.ZONE: random.choice(ZONES)})


def tainted(node: Node, _: Random) -> Node:
    return replace(node, taints=() if node.taints else (Taint("held", "NoSchedule"),))


def cordoned(node: Node, _: Random) -> Node:
    return replace(node, unschedulable=not node.unschedulable)


def resized(node: Node, random: Random) -> Node:
    return replace(node, allocatable={**node.allocatable, "cpu": random.choice((1000, 4000))})


def joining(node: Node, _: Random) -> Node:
    other = "false" if node.labels[keys.INITIALIZED] == "true" else "true"
    return replace(node, labels={**node.labels, keys.INITIALIZED: other})


CHANGES = (bind, end, daemons, *map(of_node, (moved, tainted, cordoned, resized, joining)))


def planned_from_nothing(snapshot: Snapshot) -> Plan:
    kept.forget()
    return plan_for(snapshot)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.sampled_from(CHANGES), min_size=1, max_size=8), st.randoms(use_true_random=False)
)
def test_a_cluster_that_changes_is_planned_as_if_it_were_new(
    changes: list[Callable[[Snapshot, Random], Snapshot]], random: Random
) -> None:
    course = [start()]
    for change in changes:
        course.append(change(course[-1], random))
    going_on = [plan_for(snapshot) for snapshot in course]
    assert going_on == [planned_from_nothing(snapshot) for snapshot in course]


def test_a_node_that_did_not_change_is_not_worked_out_again() -> None:
    snapshot = start()
    plan_for(snapshot)
    before = {name: known_nodes._states[name] for name in NODES}
    plan_for(bind(snapshot, Random(1)))
    after = {name: known_nodes._states[name] for name in NODES}
    assert sum(after[name] is before[name] for name in NODES) == len(NODES) - 1


def test_nodes_that_are_gone_do_not_stay_in_memory() -> None:
    """A cluster whose nodes come and go for months never has more than twice its size, and some."""
    planned_from_nothing(start())
    for number in range(3 * kept.SPARE // 500):
        nodes = tuple(make_node(f"n-{number}-{index}") for index in range(500))
        plan_for(make_snapshot(nodes=nodes))
        assert len(known_nodes._states) <= 2 * 500 + kept.SPARE + 500
    assert known_nodes._states.keys().isdisjoint(NODES)
