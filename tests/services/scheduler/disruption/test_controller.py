"""Emptiness carried out against a real API server (DIS-32, DIS-33, R5, R7)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.v1alpha5.machines import parse_machine
from shared.concurrency.clock import SystemClock
from shared.domain.machines.machine import EMPTY, Machine
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import GLOBAL, KARPENTER, WHEN_UNDERUTILIZED, Budget
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, PODS
from shared.redis import streams
from shared.redis.messages import TerminateMachine
from tests.services.conftest import create_machine, create_running_pod
from tests.services.scheduler.conftest import Scheduler
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_bound_pod, make_node, make_pool
from tests.support.planning.disruption import make_running, pods_on
from tests.support.waiting import wait_until

NAME = "default-a"


async def shown(scheduler: Scheduler, kube: Kube) -> Machine:
    """The Machine as it is stored, put in the mirror."""
    machine = parse_machine(await kube.get(MACHINES, NAME))
    await scheduler.show(machines=[machine])
    return machine


@pytest.fixture
async def initialised(scheduler: Scheduler, kube: Kube) -> None:
    """A Machine with an empty node, in a pool with a TTL of zero."""
    await create_machine(kube, NAME)
    status = {
        "nodeName": "node-1",
        "providerID": "aws:///us-west-2a/i-1",
        "conditions": [{"type": "MachineInitialized", "status": "True", "reason": "x", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }  # fmt: skip
    await kube.patch(MACHINES, NAME, {"status": status}, subresource="status")
    await scheduler.show(
        nodepools=[make_pool(consolidate_after_seconds=0)], nodes=[make_node("node-1")]
    )
    await shown(scheduler, kube)


async def is_deleted(kube: Kube) -> bool:
    return bool((await kube.get(MACHINES, NAME))["metadata"].get("deletionTimestamp"))


async def test_an_empty_machine_is_marked_then_deleted(
    scheduler: Scheduler, kube: Kube, initialised: None, published: Any, events: Any
) -> None:
    """DIS-32: the condition is on the API server, so a restart does not start the clock anew."""
    before = SystemClock().now()
    await scheduler.disruption.step()
    machine = await shown(scheduler, kube)
    assert machine.has(EMPTY)
    assert machine.conditions[EMPTY].since == pytest.approx(before, abs=5)
    assert not await is_deleted(kube)
    await scheduler.disruption.step()
    assert await is_deleted(kube)
    (order,) = await published(streams.TERMINATIONS)
    assert order == TerminateMachine(name=NAME, reason="empty")
    assert await events() == [("DisruptionTerminating", name) for name in (NAME, "node-1")]
    await scheduler.disruption.step()
    assert len(await published(streams.TERMINATIONS)) == 1


async def test_a_pod_that_the_mirror_does_not_show_yet_saves_the_node(
    scheduler: Scheduler, kube: Kube, initialised: None
) -> None:
    """R5, R7: the API server is asked right before the deletion."""
    await scheduler.disruption.step()
    await shown(scheduler, kube)
    await create_running_pod(kube, "late", "node-1")
    await scheduler.disruption.step()
    assert not await is_deleted(kube)


async def test_a_node_that_was_saved_once_is_looked_at_again(
    scheduler: Scheduler, kube: Kube, initialised: None
) -> None:
    """R7: the reprieve ends with the pod, also when the mirror never showed it."""
    await scheduler.disruption.step()
    await shown(scheduler, kube)
    await create_running_pod(kube, "late", "node-1")
    await scheduler.disruption.step()
    await kube.delete(PODS, "late", "default", grace_seconds=0)
    await scheduler.disruption.step()
    assert await is_deleted(kube)


async def test_a_pod_takes_the_mark_off(
    scheduler: Scheduler, kube: Kube, initialised: None
) -> None:
    """DIS-32, ACC-29; and the next emptiness starts a new clock."""
    await scheduler.disruption.step()
    await shown(scheduler, kube)
    await scheduler.show(pods=[make_bound_pod("web", "node-1")])
    await scheduler.disruption.step()
    machine = await shown(scheduler, kube)
    assert not machine.has(EMPTY)
    await scheduler.hide("pods", "default/web")
    await scheduler.disruption.step()
    assert (await shown(scheduler, kube)).has(EMPTY)


async def test_a_machine_that_was_replaced_meanwhile_is_left_alone(
    scheduler: Scheduler, kube: Kube, initialised: None
) -> None:
    """R5: the UID says which one is meant."""
    await scheduler.disruption.step()
    await shown(scheduler, kube)
    await kube.patch(MACHINES, NAME, {"metadata": {"finalizers": None}})
    await kube.delete(MACHINES, NAME)
    await create_machine(kube, NAME)
    await scheduler.disruption.step()
    assert not await is_deleted(kube)


@pytest.mark.slow
async def test_nothing_is_deleted_on_a_lost_picture(
    scheduler: Scheduler, kube: Kube, initialised: None, bus: Any
) -> None:
    """DIS-01: passes of the loop; OPS-13: nothing is decided by an incomplete mirror."""
    await scheduler.disruption.step()
    await shown(scheduler, kube)
    await bus.redis.flushall()
    await wait_until(scheduler.cluster.not_synced, "the loss is known")
    await scheduler.disruption.step()
    assert not await is_deleted(kube)


async def test_a_mark_that_somebody_overwrote_is_written_again(
    scheduler: Scheduler, kube: Kube, initialised: None
) -> None:
    """DIS-32: conditions are one list with several writers; a lost condition must not save a node for ever."""
    clock = FakeClock(seconds=SystemClock().monotonic(), wall=SystemClock().now())
    scheduler.disruption.conditions.clock = clock
    unmarked = await kube.get(MACHINES, NAME)
    await scheduler.disruption.step()
    conditions = {"status": {"conditions": unmarked["status"]["conditions"]}}
    await kube.patch(MACHINES, NAME, conditions, subresource="status")
    await shown(scheduler, kube)
    await scheduler.disruption.step()
    assert not parse_machine(await kube.get(MACHINES, NAME)).has(EMPTY)
    clock.advance(11)
    await scheduler.disruption.step()
    assert parse_machine(await kube.get(MACHINES, NAME)).has(EMPTY)


@pytest.mark.parametrize("consolidation", [KARPENTER, GLOBAL])
async def test_nodes_that_were_nominated_are_looked_at_when_they_no_longer_are(
    scheduler: Scheduler, consolidation: str
) -> None:
    """DIS-27: a nomination ends without a change of the cluster, so a pass that saw none but nominated nodes must not
    stand for five minutes."""
    of = make_pool(
        generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0,
        consolidator=consolidation, budgets=(Budget("100%"),),
    )  # fmt: skip
    running = [make_running(name, "m5.x008", pool=of) for name in ("n1", "n2")]
    await scheduler.show(
        nodepools=[of],
        nodes=[one.node for one in running],
        machines=[one.machine for one in running],
        pods=[*pods_on("n1", 3), *pods_on("n2", 3)],
    )
    for one in running:
        scheduler.planner._nominated.note(one.node.name, None)
    await scheduler.disruption.step()
    assert scheduler.disruption.status()["waitingForASecondLook"] == []
    scheduler.planner._nominated.clear()
    await scheduler.disruption.step()
    assert scheduler.disruption.status()["waitingForASecondLook"] != []


async def test_the_status_tells_who_switched_disruption_off(scheduler: Scheduler) -> None:
    """``dovetail halt`` switches pool by pool: with all of them off nothing is disrupted, whatever the setting says."""

    def said() -> tuple[object, ...]:
        status = scheduler.disruption.status()
        return status["off"], status["offBySetting"], status["poolsOff"]

    assert said() == (False, False, [])
    await scheduler.show(nodepools=[make_pool("a", disruption_off=True), make_pool("b")])
    assert said() == (False, False, ["Provisioner/a"])
    await scheduler.show(nodepools=[make_pool("b", disruption_off=True)])
    assert said() == (True, False, ["Provisioner/a", "Provisioner/b"])
