"""Pods are nominated in time, and count on what they are promised (KEP-5278, POD-01)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.scheduler.provisioning.handover import MOST_TRIES_JOINING, WRITES_PER_STEP, Handover
from shared.concurrency.clock import SystemClock
from shared.domain.workloads.pods import Pod
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, PODS, Resource
from shared.redis.messages import LaunchFailed, encode
from tests.services.scheduler.conftest import Scheduler, pool_of
from tests.services.scheduler.provisioning.test_handover import (
    OURS,
    nomination,
    planned_on_node,
    seen,
    waiting_pod,
)
from tests.support.planning.builders import make_node
from tests.support.waiting import wait_until


async def planned_on_joining_node(
    scheduler: Scheduler, kube: Kube, pods: list[Pod], cpu: str = "64"
) -> None:
    """The pods are planned on node ``n``, which is there and not ready."""
    size = {"cpu": 1000 * int(cpu), "memory": 2**38, "pods": 1000}
    node = make_node("n", labels=OURS, ready=False, allocatable=size, capacity=size)
    await scheduler.show(nodepools=[await pool_of(kube)], pods=pods, nodes=[node])
    await scheduler.plan()


async def take_back(kube: Kube, name: str) -> None:
    """As kube-scheduler does when it tries a pod in vain."""
    status = {"status": {"nominatedNodeName": None}}
    await kube.patch(PODS, name, status, "default", subresource="status")


async def test_a_nomination_taken_back_before_its_node_is_ready_is_written_again_when_that_shows(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    """At each try in vain, of which there are many while other nodes join; without any time passing."""
    await planned_on_joining_node(scheduler, kube, [await waiting_pod(kube, "web")])
    written = []
    for _ in range(MOST_TRIES_JOINING + 1):
        await handover.step()
        written.append(await nomination(kube, "web"))
        await seen(scheduler, kube, "web")
        await handover.step()
        await take_back(kube, "web")
        await seen(scheduler, kube, "web")
    assert written == ["n"] * MOST_TRIES_JOINING + [None]


async def test_pods_of_a_joining_node_are_nominated_with_one_request_each(
    scheduler: Scheduler, kube: Kube, handover: Handover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are to be in time: a read before each write would double it."""
    asked: list[str] = []
    get = kube.get

    async def counted(resource: Resource, name: str, *more: Any, **how: Any) -> Any:
        asked.append(name)
        return await get(resource, name, *more, **how)

    await planned_on_joining_node(scheduler, kube, [await waiting_pod(kube, "web")])
    monkeypatch.setattr(kube, "get", counted)
    await handover.step()
    assert asked == []
    monkeypatch.undo()
    assert await nomination(kube, "web") == "n"


async def test_more_pods_than_one_step_writes_are_nominated_without_a_pause(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    """With time standing still: the loop's next step would be a second later."""
    names = [f"web-{number}" for number in range(WRITES_PER_STEP + 1)]
    pods = list(await asyncio.gather(*(waiting_pod(kube, name) for name in names)))
    await planned_on_joining_node(scheduler, kube, pods)
    stop = asyncio.Event()

    async def all_nominated() -> bool:
        listed = (await kube.list(PODS, "default")).items
        return all(raw["status"].get("nominatedNodeName") == "n" for raw in listed)

    async with asyncio.TaskGroup() as group:
        group.create_task(handover.run(stop, lambda: ""))
        await wait_until(all_nominated, "all pods are nominated")
        stop.set()


async def test_an_end_that_was_overtaken_is_not_tried_again(
    scheduler: Scheduler, kube: Kube, handover: Handover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler took the nomination back and nothing showed it: the pod has none to end."""
    tries: list[str] = []
    patch = kube.json_patch

    async def counted(resource: Resource, name: str, *more: Any, **how: Any) -> Any:
        tries.append(name)
        return await patch(resource, name, *more, **how)

    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    await take_back(kube, "web")
    await scheduler.hide("nodes", "n")
    monkeypatch.setattr(kube, "json_patch", counted)
    for _ in range(3):
        await handover.step()
    assert tries == ["web"]


async def test_pods_that_are_promised_a_machine_are_not_planned_again_with_the_next_one(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    """A second plan of the same pods breaks up what the first has put together."""
    pods = [await waiting_pod(kube, name, "3") for name in ("a", "b")]
    await scheduler.show(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    first = scheduler.planner.last_plan
    assert scheduler.planner.waiting() == []
    await scheduler.show(pods=[await waiting_pod(kube, "c", "1")])
    assert [pod.name for pod in scheduler.planner.waiting()] == ["c"]
    await scheduler.plan("again")
    second = scheduler.planner.last_plan
    assert first is not None
    assert second is not None
    targets = (*second.existing.values(), *(machine.pods for machine in second.machines))
    assert sum(map(len, targets)) == 1


async def test_a_failed_launch_opens_the_window_for_pods_that_are_promised_its_machine(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    """The mirror does not show yet that the machine goes: else its pods waited for the next timed look."""
    pods = [await waiting_pod(kube, "a", "3")]
    await scheduler.show(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    planner = scheduler.planner
    assert (planner.waiting(), planner.window.opened_at) == ([], None)
    (raw,) = (await kube.list(MACHINES)).items
    failed = LaunchFailed(machine=f"Machine/{raw['metadata']['name']}")
    await scheduler.parts.handlers.machines(encode(failed, cause="c", clock=SystemClock()))
    assert planner.window.seen == {pods[0].uid}
