"""Machines of a gang that EC2 served in part: kept for a few plans, then given back (SCH-116)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.provisioning.gang_leftovers import (
    MOST_GANGS,
    RETRY_SECONDS,
    GangLeftovers,
    gangs_of,
)
from shared.domain import labels as keys
from shared.domain.instance_types.types import Offering
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Owner, Pod
from shared.kube.client import Kube
from shared.kube.resources import MACHINES
from shared.solver.plan import Plan, PlannedMachine
from tests.services.scheduler.conftest import Later, Scheduler, machines, pool_of
from tests.support.planning.builders import (
    make_bound_pod,
    make_machine,
    make_node,
    make_pod,
    make_snapshot,
)

GANG = "default/train"
REFUSED = "the gang fits not"


def bought(name: str = "train-machine", gangs: str = GANG, **fields: Any) -> Machine:
    return make_machine(name, annotations={keys.GANG: gangs}, **fields)


def member(name: str = "train-0", gang: str = "train", **fields: Any) -> Pod:
    return make_pod(name, gang=gang, **fields)


def cluster(*machines: Machine, pods: tuple[Pod, ...], nodes: tuple[Node, ...] = ()) -> Snapshot:
    return make_snapshot(machines=machines, pods=pods, nodes=nodes)


def refusing(*pods: Pod, existing: dict[str, tuple[str, ...]] | None = None) -> Plan:
    """A plan in which these pods find no place."""
    return Plan("p", 1, (), existing or {}, {pod.uid: REFUSED for pod in pods})


def given_back(plan: Plan, snapshot: Snapshot) -> list[str]:
    """Names, after as long as the retries may take."""
    leftovers = GangLeftovers()
    assert leftovers.of(plan, snapshot, now=100.0) == []
    return [one.name for one in leftovers.of(plan, snapshot, now=100.0 + RETRY_SECONDS)]


def test_machines_are_kept_for_the_retry_and_then_given_back() -> None:
    pods = (member("train-0", node_name="train-machine"), member("train-1"))
    snapshot, plan, leftovers = cluster(bought(), pods=pods), refusing(pods[1]), GangLeftovers()
    for seconds in (0.0, RETRY_SECONDS / 2, RETRY_SECONDS - 0.1):
        assert leftovers.of(plan, snapshot, now=seconds) == []
    assert [one.name for one in leftovers.of(plan, snapshot, now=RETRY_SECONDS)] == [
        "train-machine"
    ]


def test_a_plan_that_places_the_gang_begins_the_time_anew() -> None:
    pod = member()
    snapshot, leftovers = cluster(bought(), pods=(pod,)), GangLeftovers()
    leftovers.of(refusing(pod), snapshot, now=0.0)
    leftovers.of(refusing(), snapshot, now=RETRY_SECONDS)
    assert leftovers.of(refusing(pod), snapshot, now=RETRY_SECONDS + 1) == []
    assert leftovers.of(refusing(pod), snapshot, now=2 * RETRY_SECONDS) == []
    assert len(leftovers.of(refusing(pod), snapshot, now=2 * RETRY_SECONDS + 1)) == 1


@pytest.mark.parametrize(
    "machine",
    [
        make_machine("train-machine"),
        bought(gangs="default/other"),
        bought(gangs=f"{GANG},default/other"),
        bought(terminating=True),
    ],
    ids=["for no gang", "for another", "for another too", "on its way"],
)
def test_only_what_was_bought_for_refused_gangs_alone_goes(machine: Machine) -> None:
    pod = member()
    assert given_back(refusing(pod), cluster(machine, pods=(pod,))) == []


def test_a_machine_of_two_gangs_goes_when_both_are_refused() -> None:
    pods = (member(), member("other-0", gang="other"))
    machine = bought(gangs=f"default/other,{GANG}")
    assert given_back(refusing(*pods), cluster(machine, pods=pods)) == ["train-machine"]


def test_a_gang_that_runs_in_part_loses_nothing() -> None:
    """kube-scheduler binds pods one by one: what runs is not taken back."""
    pods = (make_bound_pod("train-0", "node-1", gang="train"), member("train-1"))
    nodes = (make_node("node-1"),)
    assert given_back(refusing(pods[1]), cluster(bought(), pods=pods, nodes=nodes)) == []


NODE = make_node("node-1", provider_id="aws:///us-west-2a/i-1")
ON_NODE = {"provider_id": "aws:///us-west-2a/i-1", "node_name": "node-1"}


@pytest.mark.parametrize(
    ("pod", "goes"),
    [
        (make_bound_pod("web", "node-1"), False),
        (make_bound_pod("agent", "node-1", owner=Owner("DaemonSet", "agent", "d")), True),
        (make_bound_pod("done", "node-1", phase="Succeeded"), True),
        (make_pod("promised", nominated_node="node-1"), False),
        (make_pod("promised", nominated_node="train-machine"), False),
        (make_pod("promised", node_name="train-machine"), False),
        (member("train-1", node_name="train-machine"), True),
        (member("train-1", node_name="node-1", nominated_node="node-1"), True),
        (make_pod("elsewhere", nominated_node="node-2"), True),
    ],
)
def test_a_machine_that_others_use_stays(pod: Pod, goes: bool) -> None:
    waiting = member()
    snapshot = cluster(bought(**ON_NODE), pods=(waiting, pod), nodes=(NODE,))
    assert bool(given_back(refusing(waiting), snapshot)) is goes


@pytest.mark.parametrize("name", ["train-machine", "node-1"])
def test_a_machine_to_which_the_plan_gives_pods_stays(name: str) -> None:
    waiting = member()
    snapshot = cluster(bought(**ON_NODE), pods=(waiting,), nodes=(NODE,))
    assert given_back(refusing(waiting, existing={name: ("uid-web",)}), snapshot) == []


def planned(*pods: Pod) -> PlannedMachine:
    offering = Offering("us-west-2a", "on-demand", 1)
    return PlannedMachine(
        "m", "default", "Provisioner/default", "default", tuple(p.uid for p in pods),
        ("m5.large",), (), {}, {}, (), (), "m5.large", offering,
    )  # fmt: skip


def test_a_machine_names_the_gangs_that_it_is_bought_for_alone() -> None:
    gang, other, single = member(), member("other-0", gang="other"), make_pod("web")
    by_uid = {pod.uid: pod for pod in (gang, other, single)}
    assert gangs_of(planned(gang, other), by_uid) == f"default/other,{GANG}"
    assert gangs_of(planned(gang, single), by_uid) == ""
    many = [member(f"p{n}", gang=f"g{n}") for n in range(MOST_GANGS + 1)]
    assert gangs_of(planned(*many), {pod.uid: pod for pod in many}) == ""


async def staying(kube: Kube) -> list[str]:
    """Names of the machines whose deletion nobody ordered."""
    found = [one["metadata"] for one in await machines(kube)]
    return [one["name"] for one in found if not one.get("deletionTimestamp")]


async def test_what_was_launched_for_a_gang_that_cannot_be_completed_is_deleted(
    scheduler: Scheduler, kube: Kube
) -> None:
    """On real Redis and a real API server: EC2 refused the second machine, and there is no other type for it."""
    pool = await pool_of(kube)
    pods = [make_pod(f"train-{n}", cpu="100", gang="train") for n in range(2)]
    await scheduler.show(nodepools=[pool], pods=pods)
    await scheduler.plan()
    first, second = await machines(kube)
    assert {m["metadata"]["annotations"][keys.GANG] for m in (first, second)} == {GANG}
    await kube.delete(MACHINES, second["metadata"]["name"])
    closed = replace(pool, limits={"cpu": 1000})
    await scheduler.show(nodepools=[closed])
    await scheduler.plan("refused")
    assert await staying(kube) == [first["metadata"]["name"]], "kept for the retry"
    scheduler.planner.clock = Later(scheduler.planner.clock, RETRY_SECONDS)
    await scheduler.plan("still refused")
    assert await staying(kube) == []
