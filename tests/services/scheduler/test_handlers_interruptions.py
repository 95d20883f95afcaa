"""Many instances taken back at once: their pods are planned together, before they wait (INT-22, POD-09, POD-10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from services.scheduler.handlers import TerminationTrigger
from services.scheduler.state.cluster import pods_to_move
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.records import MACHINES, NODES, PODS
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import Pod
from shared.kube.client import Kube
from shared.redis.messages import InterruptionReceived, encode
from shared.redis.mirror import Change
from shared.solver.plan import PlannedMachine
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import (
    make_bound_pod,
    make_machine,
    make_node,
    make_pod,
    make_snapshot,
)

STORM = 30
LEAVING = make_machine("m", node_name="n", terminating=True)
GUARDED = {"app": "guarded"}


def budget(allowed: int, **changes: Any) -> PodDisruptionBudget:
    """Protects pods with the label app=guarded in namespace default."""
    fields = {"name": "pdb", "namespace": "default", "match_labels": GUARDED, **changes}
    return PodDisruptionBudget(uid=f"uid-{fields['name']}", allowed=allowed, **fields)


def running(name: str, node: str, **changes: Any) -> Pod:
    return replace(make_bound_pod(name, node, **changes), phase="Running")


@pytest.mark.parametrize(
    ("budgets", "moves"),
    [
        ((), True),
        ((budget(1),), True),
        ((budget(0),), False),
        ((budget(0, namespace="other"),), True),
        ((budget(0, match_labels={"app": "another"}),), True),
        ((budget(3), budget(3, name="second")), False),
    ],
    ids=["no budget", "allows", "allows none", "elsewhere", "other pods", "two budgets"],
)
def test_pods_whose_budget_refuses_their_eviction_get_no_new_place_yet(
    budgets: tuple[PodDisruptionBudget, ...], moves: bool
) -> None:
    """POD-10: pods that may not be evicted."""
    pod = running("p", "n", labels=GUARDED)
    snapshot = make_snapshot(pod, machines=(LEAVING,), pdbs=budgets)
    assert pods_to_move(snapshot, now=0.0) == ({"uid-p"} if moves else set())


@pytest.mark.parametrize(("now", "moves"), [(1000.0, False), (1000.0 + 1801, True)])
def test_a_timed_annotation_holds_a_pod_until_its_time_is_over(now: float, moves: bool) -> None:
    """POD-10: pods that may not be evicted; ACC-76: a timed annotation."""
    pod = replace(running("p", "n", do_not_disrupt="30m"), started_at=1000.0)
    found = pods_to_move(make_snapshot(pod, machines=(LEAVING,)), now=now)
    assert found == ({"uid-p"} if moves else set())


def change(record: Any, kind: str = MACHINES) -> Change:
    return Change(kind, record.name, msgspec.json.encode(record))


def test_whoever_deletes_a_machine_or_node_its_pods_join_the_batch_once() -> None:
    """POD-09: kubectl, expiration and interruption alike; a leaving machine that changes does not put the plan off."""
    heard: list[str] = []
    trigger = TerminationTrigger(heard.append)
    trigger.note(change(make_machine("m")))
    assert heard == []
    trigger.note(change(LEAVING))
    trigger.note(change(replace(LEAVING, node_name="n2")))
    trigger.note(change(make_node("n", terminating=True), NODES))
    assert heard == ["machines/m", "nodes/n"]
    trigger.note(Change(MACHINES, "m", None))
    trigger.note(change(LEAVING))
    assert heard[2:] == ["machines/m"]


def test_a_record_that_cannot_be_read_triggers_nothing() -> None:
    heard: list[str] = []
    TerminationTrigger(heard.append).note(Change(MACHINES, "m", b'{"terminating": 5}'))
    assert heard == []


def world() -> tuple[list[Machine], list[Node], list[Pod]]:
    """Machines that run two pods each; on the first node one of them is guarded."""
    labels = {keys.PROVISIONER_NAME: "default", keys.INITIALIZED: "true"}
    made, nodes, pods = [], [], []
    for n in range(STORM):
        node = make_node(f"node-{n}", labels=labels, provider_id=f"aws:///us-west-2a/i-{n}")
        made.append(make_machine(f"old-{n}", node_name=node.name, provider_id=node.provider_id))
        nodes.append(node)
        pods += [running(f"web-{n}", node.name, cpu="1"), running(f"api-{n}", node.name, cpu="1")]
    pods[0] = replace(pods[0], labels=GUARDED)
    return made, nodes, pods


async def test_replacements_for_a_storm_are_planned_in_one_solve(
    scheduler: Scheduler, kube: Kube
) -> None:
    """INT-22, F21: thirty notices, one plan; the guarded pod is not in it."""
    pool = await pool_of(kube)
    made, nodes, pods = world()
    await scheduler.show(
        nodepools=[pool], machines=made, nodes=nodes, pods=pods, poddisruptionbudgets=[budget(0)]
    )
    await scheduler.show(machines=[replace(machine, terminating=True) for machine in made])
    handlers, trigger = scheduler.parts.handlers, scheduler.parts.terminations
    for n, machine in enumerate(made):
        notice = InterruptionReceived(
            kind="spot_interrupted", instances=(f"i-{n}",), deadline=1.0, event=f"event-{n}"
        )
        await handlers.interruptions(encode(notice, cause="c", clock=SystemClock()))
        trigger.note(change(replace(machine, terminating=True)))
    await scheduler.plan("interruption/one-more")
    assert scheduler.planner.rounds == 1
    plan = scheduler.planner.last_plan
    assert plan is not None
    planned = {uid for machine in plan.machines for uid in machine.pods}
    assert planned == {pod.uid for pod in pods} - {pods[0].uid}
    assert not plan.existing
    assert not plan.unschedulable
    assert len(await machines(kube)) == len(plan.machines)


def cheapest(machine: PlannedMachine) -> tuple[str, str, str]:
    """What the launcher would try first."""
    offering = machine.offering
    return (offering.capacity_type, machine.instance_type, offering.zone)


async def test_a_replacement_avoids_the_pool_that_was_interrupted(
    scheduler: Scheduler, kube: Kube
) -> None:
    """ACC-47: the offering is unavailable for three minutes."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("first")])
    await scheduler.plan("a")
    assert scheduler.planner.last_plan is not None
    key = cheapest(scheduler.planner.last_plan.machines[0])
    await scheduler.cluster.unavailable.add([key], seconds=180)
    node = make_node("n", labels={keys.PROVISIONER_NAME: "default", keys.INITIALIZED: "true"})
    gone = [make_bound_pod("moves", "n")]
    await scheduler.hide(PODS, "default/first")
    await scheduler.show(machines=[LEAVING], nodes=[node], pods=gone)
    (bought,) = [one for one in scheduler.view.machines() if one.name != LEAVING.name]
    await scheduler.parts.machines.patch(bought, {"finalizers": None})
    await scheduler.parts.machines.delete(bought)
    scheduler.view.created.clear()
    await scheduler.plan("b")
    (replacement,) = scheduler.planner.last_plan.machines
    assert cheapest(replacement) != key
