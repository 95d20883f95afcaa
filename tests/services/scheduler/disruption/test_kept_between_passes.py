"""What is kept of a cluster from one pass to the next never changes a command: each pass is as one from nothing."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from services.scheduler.disruption.passes import pass_again, world_again
from shared.disruption.global_consolidation.churn import Churn
from shared.disruption.simulation import simulate_one_machine
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import INITIALIZED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from shared.domain.snapshot import Snapshot
from shared.domain.workloads import kept
from shared.domain.workloads.pods import Owner, Pod
from shared.simulation.decisions.records import PassQuestion
from shared.solver.solve import SolverSettings, solve
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_daemon_set,
    make_pod,
    make_pool,
    make_spread,
    make_term,
)
from tests.support.planning.disruption import NOW, make_cluster, make_running, pods_on

POOL = make_pool(
    generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0,
    budgets=(Budget("100%"),),
)  # fmt: skip
NODES = tuple("abcdefg")
QUESTION = PassQuestion(NOW, V1, SolverSettings(), FeatureGates(), "Karpenter", Churn())
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"spread": (make_spread(keys.ZONE),)},
    {"anti_affinity": (make_term(keys.HOSTNAME, "web"),)},
    {"affinity": (make_term(keys.ZONE, "db"),)},
    {"owner": Owner("DaemonSet", "agent", "daemon-agent"), "created_at": NOW - 5},
    {"do_not_disrupt": "true"},
)
Change = Callable[[Snapshot, Random], Snapshot]


def a_pod(random: Random, node: str) -> Pod:
    fields: dict[str, Any] = {
        "cpu": random.choice(("100m", "500m", "1", "1500m", "2500m")),
        "labels": {"app": random.choice(("web", "db"))},
        **random.choice(RULES),
    }
    name = f"pod-{random.getrandbits(40)}"
    return make_bound_pod(name, node, **fields) if node else make_pod(name, **fields)


def start(random: Random) -> Snapshot:
    """Seven nodes of two sizes in two zones, most of them half empty."""
    running = [
        make_running(name, random.choice(("m5.x004", "m5.x008")), ZONES[at % 2], pool=POOL)
        for at, name in enumerate(NODES)
    ]
    pods = [a_pod(random, random.choice(NODES)) for _ in range(14)]
    return make_cluster(running, *pods, pools=(POOL,), daemon_sets=(make_daemon_set("agent"),))


def come(snapshot: Snapshot, random: Random) -> Snapshot:
    return replace(snapshot, pods=(*snapshot.pods, a_pod(random, random.choice(NODES))))


def wait(snapshot: Snapshot, random: Random) -> Snapshot:
    return replace(snapshot, pods=(*snapshot.pods, a_pod(random, "")))


def of_pod(change: Callable[[Pod, Random], Pod | None]) -> Change:
    def apply(snapshot: Snapshot, random: Random) -> Snapshot:
        pods = [*snapshot.pods]
        at = random.randrange(len(pods))
        pods[at : at + 1] = filter(None, [change(pods[at], random)])
        return replace(snapshot, pods=tuple(pods))

    return apply


def of_node(change: Callable[[Node, Random], Node]) -> Change:
    def apply(snapshot: Snapshot, random: Random) -> Snapshot:
        nodes = [*snapshot.nodes]
        at = random.randrange(len(nodes))
        nodes[at] = change(nodes[at], random)
        return replace(snapshot, nodes=tuple(nodes))

    return apply


def of_machine(change: Callable[[Machine], Machine]) -> Change:
    def apply(snapshot: Snapshot, random: Random) -> Snapshot:
        machines = [*snapshot.machines]
        at = random.randrange(len(machines))
        machines[at] = change(machines[at])
        return replace(snapshot, machines=tuple(machines))

    return apply


def not_initialized(machine: Machine) -> Machine:
    return replace(
        machine, conditions={k: v for k, v in machine.conditions.items() if k != INITIALIZED}
    )


CHANGES: dict[str, Change] = {
    "come": come,
    "wait": wait,
    "go": of_pod(lambda pod, random: None),
    "move": of_pod(lambda pod, random: replace(pod, node_name=random.choice(NODES))),
    "end": of_pod(lambda pod, random: replace(pod, terminating=True)),
    "resize": of_pod(lambda pod, random: replace(pod, requests={**pod.requests, "cpu": 700})),
    "relabel": of_pod(lambda pod, random: replace(pod, labels={"app": "db"})),
    "repel": of_pod(
        lambda pod, random: replace(pod, anti_affinity=(make_term(keys.HOSTNAME, "db"),))
    ),
    "cordon": of_node(lambda node, random: replace(node, unschedulable=not node.unschedulable)),
    "taint": of_node(lambda node, random: replace(node, taints=(Taint("held", "NoSchedule"),))),
    "resize node": of_node(
        lambda node, random: replace(
            node, allocatable={**node.allocatable, "cpu": random.choice((3000, 16_000))}
        )
    ),
    "restart": of_machine(not_initialized),
    "delete": of_machine(lambda machine: replace(machine, terminating=True)),
}


def answers(snapshot: Snapshot) -> list[bytes]:
    """A pass, a plan, and the removal of each machine alone."""
    world = world_again(snapshot, QUESTION)
    removals = [simulate_one_machine(world, (one,)) for one in world.candidates]
    plan = solve(snapshot, now=NOW, settings=SolverSettings())
    return [msgspec.json.encode(one) for one in (pass_again(snapshot, QUESTION), plan, removals)]


def check(changes: list[str], random: Random) -> None:
    course = [start(random)]
    for change in changes:
        course.append(CHANGES[change](course[-1], random))
    going_on = [answers(snapshot) for snapshot in course]
    assert going_on == [answers_from_nothing(snapshot) for snapshot in course]


def answers_from_nothing(snapshot: Snapshot) -> list[bytes]:
    kept.forget()
    return answers(snapshot)


SOME = st.lists(st.sampled_from(sorted(CHANGES)), min_size=1, max_size=6)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(SOME, st.randoms(use_true_random=False))
def test_a_pass_that_goes_on_is_as_one_from_nothing(changes: list[str], random: Random) -> None:
    check(changes, random)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@settings(max_examples=1000, deadline=None)
@given(SOME, st.randoms(use_true_random=False))
def test_many_passes_that_go_on_are_as_those_from_nothing(
    changes: list[str], random: Random
) -> None:
    check(changes, random)


def test_a_node_that_grew_takes_the_pods_of_another() -> None:
    """Room is judged by the node's record, too: its pods are the same ones."""
    running = [make_running(name, pool=POOL) for name in "ab"]
    pods = [*pods_on("a", 3, "1200m"), *pods_on("b", 3, "1200m")]
    before = make_cluster(running, *pods, pools=(POOL,))
    assert pass_again(before, QUESTION).command is None
    larger = replace(before.nodes[1], allocatable={**before.nodes[1].allocatable, "cpu": 16_000})
    after = pass_again(replace(before, nodes=(before.nodes[0], larger)), QUESTION)
    assert after.command is not None
    assert after.command.replacements == ()
