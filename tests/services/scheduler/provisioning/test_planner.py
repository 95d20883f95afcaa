"""A provisioning round on real Redis and a real API server (BAT-05, BAT-08, M-05, OPS-13)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.provisioning.planner import Solver
from shared.api.v1alpha5.machines import parse_machine
from shared.concurrency.clock import SystemClock
from shared.domain import labels as keys
from shared.domain.pools.windows import Window
from shared.kube.client import Kube
from shared.metrics import Metrics
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.messages import LaunchMachine
from shared.settings import SchedulerSettings, read
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import ZONES, make_machine, make_node, make_pod, make_pods
from tests.support.waiting import wait_until


async def test_a_waiting_pod_gets_a_machine(
    scheduler: Scheduler, kube: Kube, published: Any, events: Any, metrics: Metrics
) -> None:
    """M-05, SCH-110: owned by its Provisioner, with finalizer, labels and plan; the launch is requested."""
    pool = await pool_of(kube, labels={"team": "blue"})
    await scheduler.show(nodepools=[pool], pods=[make_pod("web")])
    await scheduler.plan("uid-web")
    (raw,) = await machines(kube)
    machine, meta = parse_machine(raw), raw["metadata"]
    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Provisioner", "default", pool.uid)
    assert meta["finalizers"] == [keys.FINALIZER]
    assert machine.labels[keys.PROVISIONER_NAME] == "default"
    assert machine.labels["team"] == "blue"
    assert machine.node_class == "default"
    assert machine.requests["cpu"] >= 100
    plan = scheduler.planner.last_plan
    assert plan is not None
    assert machine.annotations[keys.PLAN_ANNOTATION] == plan.id
    assert await published(streams.LAUNCHES) == [LaunchMachine(machine=machine.key)]
    assert scheduler.planner.nominated() == {machine.name}
    assert await events() == [("Nominated", "web")]
    created = metrics.registry.get_sample_value(
        "karpenter_nodeclaims_created_total",
        {"reason": "provisioned", "nodepool": "default", "min_values_relaxed": "false"},
    )
    assert created == 1
    timed = "karpenter_pods_scheduling_decision_duration_seconds_count"
    assert metrics.registry.get_sample_value(timed) == 1, "POD-11"


@pytest.mark.parametrize(("dollars", "counted"), [(None, None), (0.0, 0), (0.03, 30_000)])
def test_the_node_price_reaches_the_planner_in_micro_dollars(
    dollars: float | None, counted: int | None
) -> None:
    chosen: dict[str, Any] = {"packing_policy": "Balanced", "node_price": dollars}
    settings = read(SchedulerSettings, None, cluster_name="test", **chosen)
    options = Solver(settings, SystemClock()).options()
    assert (options.packing_policy, options.node_price_micro_usd) == ("Balanced", counted)


async def test_a_pool_outside_its_hours_buys_nothing(scheduler: Scheduler, kube: Kube) -> None:
    """The one window that ever opens is on the 29th of February."""
    never = Window(schedule="0 0 29 2 *", duration_seconds=60.0)
    pool = replace(await pool_of(kube), hours=(never,))
    await scheduler.show(nodepools=[pool], pods=[make_pod("web")])
    await scheduler.plan("uid-web")
    assert await machines(kube) == []
    plan = scheduler.planner.last_plan
    assert plan is not None
    assert "outside its hours" in plan.unschedulable["uid-web"]


async def test_a_second_plan_does_not_buy_twice_before_the_mirror_shows_the_first(
    scheduler: Scheduler, kube: Kube
) -> None:
    """BAT-05, SVC-05, SVC-06: our own writes count at once."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan("a")
    await scheduler.plan("b")
    await scheduler.plan("c")
    assert len(await machines(kube)) == 1


async def test_a_restarted_scheduler_does_not_buy_twice_either(
    scheduler: Scheduler, kube: Kube
) -> None:
    """R4: the same snapshot makes the same names; AlreadyExists is success."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan("a")
    scheduler.view.created.clear()  # as after a restart
    await scheduler.plan("b")
    assert len(await machines(kube)) == 1


async def test_more_pods_are_packed_into_what_is_on_its_way(
    scheduler: Scheduler, kube: Kube
) -> None:
    """SCH-40: in-flight capacity first."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("big", cpu="5")])
    await scheduler.plan("a")
    await scheduler.show(pods=[make_pod("small", cpu="100m")])
    await scheduler.plan("b")
    (machine,) = await machines(kube)
    assert scheduler.planner.last_plan is not None
    assert "uid-small" in scheduler.planner.last_plan.existing[machine["metadata"]["name"]]


@pytest.mark.parametrize(("usage", "bought"), [("4", 1), ("12", 0)])
async def test_a_limit_that_is_reached_buys_nothing(
    scheduler: Scheduler, kube: Kube, events: Any, usage: str, bought: int
) -> None:
    """P-10: limits; BAT-08: limits hold while machines are created; ACC-26: limits that are reached."""
    pool = await pool_of(kube, limits={"resources": {"cpu": "10"}})
    capacity = {"cpu": int(usage) * 1000, "memory": 1}
    full = {"cpu": 1, "memory": 1, "pods": 1}
    old = make_machine(
        "default-old", capacity=capacity, allocatable=full, provider_id="aws:///us-west-2a/i-1"
    )
    await scheduler.show(nodepools=[pool], machines=[old], pods=[make_pod("web")])
    await scheduler.plan()
    assert len(await machines(kube)) == bought
    assert [reason for reason, _ in await events()] == [
        "Nominated" if bought else "FailedScheduling"
    ]


async def test_a_pod_that_fits_nowhere_is_told_why(
    scheduler: Scheduler, kube: Kube, events: Any, metrics: Metrics
) -> None:
    """SCH-111; the others go on (F27)."""
    pods = [
        make_pod("huge", cpu="10000"),
        make_pod("odd", faults=("spec.x: wrong",)),
        make_pod("ok"),
    ]
    await scheduler.show(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    assert len(await machines(kube)) == 1
    reasons = scheduler.planner.reporter.last_reasons
    assert set(reasons) == {"default/huge", "default/odd"}
    assert "spec.x: wrong" in reasons["default/odd"]
    failed = [name for reason, name in await events() if reason == "FailedScheduling"]
    assert failed == ["huge", "odd"]


async def test_space_on_nodes_is_used_before_anything_is_bought(
    scheduler: Scheduler, kube: Kube
) -> None:
    """SCH-40: order of checks for a new machine."""
    await scheduler.show(
        nodepools=[await pool_of(kube)], nodes=[make_node("n")], pods=[make_pod("web")]
    )
    await scheduler.plan()
    assert await machines(kube) == []
    assert scheduler.planner.nominated() == {"n"}


async def test_pods_of_a_leaving_node_get_a_place_before_they_are_evicted(
    scheduler: Scheduler, kube: Kube
) -> None:
    """POD-09: pods of nodes that go; INT-22: the replacement is bought during the drain."""
    node = make_node("n", labels={keys.PROVISIONER_NAME: "default"}, terminating=True)
    pod = make_pod("web", node_name="n", unschedulable=False, phase="Running")
    await scheduler.show(nodepools=[await pool_of(kube)], nodes=[node], pods=[pod])
    await scheduler.plan()
    assert len(await machines(kube)) == 1


async def test_unavailable_offerings_are_not_planned_with(
    scheduler: Scheduler, kube: Kube, bus: Bus
) -> None:
    """LCH-61, LCH-64: the next plan avoids what EC2 has not got."""
    pool = await pool_of(kube)
    cheapest = [("on-demand", "m5.x002", zone) for zone in ZONES]
    await scheduler.cluster.unavailable.add(cheapest, seconds=60)
    await scheduler.show(nodepools=[pool], pods=[make_pod("web")])
    await scheduler.plan()
    (raw,) = await machines(kube)
    (types,) = [r for r in raw["spec"]["requirements"] if r["key"] == keys.INSTANCE_TYPE]
    assert "m5.x002" not in types["values"]
    assert "m5.x004" in types["values"]


async def test_many_pods_become_few_machines_with_parallel_writes(
    scheduler: Scheduler, kube: Kube, published: Any
) -> None:
    """ACC-02, 400 pods at once: one launch is requested for each Machine."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=make_pods(400, cpu="1"))
    await scheduler.plan()
    names = {f"Machine/{raw['metadata']['name']}" for raw in await machines(kube)}
    assert 1 < len(names) < 20
    assert {m.machine for m in await published(streams.LAUNCHES)} == names


@pytest.mark.slow
async def test_nothing_is_planned_on_a_lost_or_old_picture(
    scheduler: Scheduler, kube: Kube, bus: Bus
) -> None:
    """OPS-13: nothing is decided by an incomplete mirror."""
    assert scheduler.cluster.not_synced() == ""
    await bus.redis.flushall()
    await wait_until(scheduler.cluster.not_synced, "the mirror is known to be lost")
    assert "is the watcher running?" in scheduler.cluster.not_synced()
