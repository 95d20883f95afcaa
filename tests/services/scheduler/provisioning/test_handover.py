"""The planner's placement on a real API server (KEP-5278, POD-01, BAT-11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.provisioning.handover import (
    MIRROR_LAG_SECONDS,
    MOST_TRIES,
    PROBLEM_SECONDS,
    Handover,
)
from services.scheduler.provisioning.nominations import BIND_SECONDS
from shared.api.core.pods import parse_pod
from shared.domain import labels as keys
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, PODS, Resource
from shared.settings import SchedulerSettings, apply, read
from tests.services.conftest import CLUSTER
from tests.services.scheduler.conftest import Scheduler, pool_of
from tests.support.clock.fake import FakeClock
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.planning.builders import make_machine, make_node, make_pod
from tests.support.waiting import wait_until

OURS = {keys.PROVISIONER_NAME: "default"}
PROVIDER_ID = "aws:///us-west-2a/i-1"


async def waiting_pod(kube: Kube, name: str, cpu: str = "100m") -> Pod:
    """A stored pod that kube-scheduler called unschedulable, as the watcher reads it."""
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}
    await kube.create(PODS, body)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"status": {"conditions": [condition]}}
    return parse_pod(await kube.patch(PODS, name, status, "default", subresource="status"))


async def nomination(kube: Kube, name: str) -> str | None:
    """What the API server says."""
    found: str | None = (await kube.get(PODS, name, "default"))["status"].get("nominatedNodeName")
    return found


async def seen(scheduler: Scheduler, kube: Kube, name: str) -> Pod:
    """The watcher shows the pod as it is stored now."""
    pod = parse_pod(await kube.get(PODS, name, "default"))
    await scheduler.show(pods=[pod])
    return pod


async def test_auto_asks_the_server_whose_scheduler_listens(handover: Handover) -> None:
    status = handover.status()
    assert (status["setting"], status["active"]) == ("auto", True)
    assert str(status["server"]).endswith("+dovetail")


async def test_pods_are_nominated_as_soon_as_the_node_of_their_machine_joins(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    pods = [await waiting_pod(kube, name, "3") for name in ("a", "b")]
    await scheduler.show(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    (raw,) = (await kube.list(MACHINES)).items
    await handover.step()
    assert await nomination(kube, "a") is None
    meta = raw["metadata"]
    machine = make_machine(meta["name"], uid=meta["uid"], provider_id=PROVIDER_ID)
    node = make_node("n", labels=OURS, provider_id=PROVIDER_ID, ready=False)
    await scheduler.show(machines=[machine], nodes=[node])
    await handover.step()
    assert [await nomination(kube, name) for name in ("a", "b")] == ["n", "n"]
    assert [is_provisionable(pod) for pod in handover.settled(scheduler.view.pods())] == [
        False, False,
    ]  # fmt: skip


async def bind(kube: Kube, name: str, node: str) -> None:
    """As kube-scheduler does."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"metadata": {"name": name, "namespace": "default"}, "target": target}
    await kube.create(Resource("", "v1", f"pods/{name}/binding", "Binding", True), body)


async def test_a_pod_that_kube_scheduler_bound_meanwhile_is_left_alone(
    scheduler: Scheduler, kube: Kube, handover: Handover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror does not show it yet: it is not asked again and again to take what it cannot take."""
    written: list[str] = []
    patch = kube.patch

    async def counted(resource: Resource, name: str, *more: Any, **how: Any) -> Any:
        written.append(name)
        return await patch(resource, name, *more, **how)

    await planned_on_node(scheduler, kube, handover)
    await bind(kube, "web", "other")
    monkeypatch.setattr(kube, "patch", counted)
    for _ in range(3):
        await handover.step()
    assert written == []
    await seen(scheduler, kube, "web")
    await handover.step()
    assert handover.realised == {"not nominated": 1}


async def test_a_pod_bound_between_the_look_and_the_write_is_asked_once(
    scheduler: Scheduler, kube: Kube, handover: Handover, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server refuses it with 422, and no more is to be done."""
    reads: list[str] = []
    get = kube.get

    async def bound_after(resource: Resource, name: str, *more: Any, **how: Any) -> Any:
        found = await get(resource, name, *more, **how)
        reads.append(name)
        await bind(kube, name, "other")
        return found

    await planned_on_node(scheduler, kube, handover)
    monkeypatch.setattr(kube, "get", bound_after)
    for _ in range(3):
        await handover.step()
    assert reads == ["web"]
    assert handover.problem == ""


async def test_a_nominated_node_is_not_empty(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    """BAT-11, DIS-33: however long ago the plan was made."""
    await scheduler.show(pods=[make_pod("web", nominated_node="n")], nodes=[make_node("n")])
    await handover.step()
    assert scheduler.planner.nominated() == {"n"}


async def planned_on_node(scheduler: Scheduler, kube: Kube, handover: Handover) -> None:
    """Pod ``web`` waits and is planned on node ``n``, which is there and ready."""
    pod = await waiting_pod(kube, "web")
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[pod], nodes=[make_node("n")])
    await scheduler.plan()


async def test_pods_of_a_ready_node_are_nominated_at_once_and_what_came_of_it_is_counted(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    assert await nomination(kube, "web") == "n"
    pod = await seen(scheduler, kube, "web")
    await scheduler.show(pods=[replace(pod, node_name="n")])
    await handover.step()
    assert handover.realised == {"kept": 1}
    assert (handover.status()["promised"], handover.status()["standing"]) == (0, 0)


async def test_a_pod_that_kube_scheduler_placed_elsewhere_is_counted_as_that(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    pod = await seen(scheduler, kube, "web")
    await scheduler.show(pods=[replace(pod, node_name="other")])
    await handover.step()
    assert handover.realised == {"elsewhere": 1}


async def test_switched_off_nothing_is_nominated(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    off = read(SchedulerSettings, cluster_name=CLUSTER, batch_idle_duration=0.01, nominate="off")
    apply(scheduler.planner.settings, off)
    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    assert await nomination(kube, "web") is None
    assert handover.status()["active"] is False


async def test_another_pod_of_the_same_name_is_left_alone(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    await planned_on_node(scheduler, kube, handover)
    await kube.delete(PODS, "web", "default", grace_seconds=0)
    await waiting_pod(kube, "web")
    await handover.step()
    assert await nomination(kube, "web") is None


async def test_a_pod_whose_node_is_gone_waits_again_and_loses_the_nomination(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    """POD-01 asks for an empty status.nominatedNodeName, and gets it."""
    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    await seen(scheduler, kube, "web")
    await scheduler.hide("nodes", "n")
    assert [pod.name for pod in scheduler.planner.waiting()] == ["web"]
    await scheduler.plan("again")
    assert len((await kube.list(MACHINES)).items) == 1
    await handover.step()
    assert await nomination(kube, "web") is None
    assert handover.realised == {"lapsed": 1}


async def test_a_node_that_did_not_take_the_pod_is_not_promised_to_it_again(
    scheduler: Scheduler, kube: Kube, handover: Handover, clock: FakeClock
) -> None:
    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    await seen(scheduler, kube, "web")
    await handover.step()
    clock.advance(BIND_SECONDS + 1)
    await handover.step()
    assert await nomination(kube, "web") is None
    await seen(scheduler, kube, "web")
    clock.advance(MIRROR_LAG_SECONDS + 1)
    await scheduler.plan("again")
    await handover.step()
    assert await nomination(kube, "web") is None
    assert [pod.name for pod in scheduler.planner.waiting()] == ["web"]


async def test_a_nomination_that_kube_scheduler_changed_meanwhile_stays(
    scheduler: Scheduler, kube: Kube, handover: Handover
) -> None:
    pod = await waiting_pod(kube, "web")
    await scheduler.show(pods=[replace(pod, nominated_node="gone")])
    status = {"status": {"nominatedNodeName": "better"}}
    await kube.patch(PODS, "web", status, "default", subresource="status")
    await handover.step()
    assert await nomination(kube, "web") == "better"


async def test_a_nomination_that_is_taken_back_is_written_a_few_times_and_no_more(
    scheduler: Scheduler, kube: Kube, handover: Handover, clock: FakeClock
) -> None:
    await planned_on_node(scheduler, kube, handover)
    written = []
    for _ in range(MOST_TRIES + 1):
        await handover.step()
        written.append(await nomination(kube, "web"))
        status = {"status": {"nominatedNodeName": None}}
        await kube.patch(PODS, "web", status, "default", subresource="status")
        clock.advance(MIRROR_LAG_SECONDS + 1)
    assert written == ["n"] * MOST_TRIES + [None]


async def test_after_a_restart_what_stands_on_pods_is_judged_anew(
    scheduler: Scheduler, kube: Kube, handover: Handover, clock: FakeClock
) -> None:
    """SVC-03: promises are lost, nothing else."""
    await planned_on_node(scheduler, kube, handover)
    await handover.step()
    await seen(scheduler, kube, "web")
    born = Handover(handover.settings, handover.view, kube, clock)
    await born.step()
    assert await nomination(kube, "web") == "n"
    clock.advance(BIND_SECONDS + 1)
    await born.step()
    assert await nomination(kube, "web") is None


@pytest.mark.slow
async def test_a_server_that_takes_no_nominations_is_left_alone_for_a_while(
    scheduler: Scheduler, kube: Kube, handover: Handover, clock: FakeClock, tmp_path: Path
) -> None:
    await planned_on_node(scheduler, kube, handover)
    working = handover.kube
    handover.kube = await connect(write_kubeconfig(tmp_path / "dead", "http://127.0.0.1:9"))
    await handover.step()
    assert handover.problem
    await handover.kube.close()
    handover.kube = working
    await handover.step()
    assert await nomination(kube, "web") is None
    clock.advance(PROBLEM_SECONDS + 1)
    await handover.step()
    assert await nomination(kube, "web") == "n"
    assert handover.problem == ""


async def test_the_loop_writes_without_being_asked_but_never_on_a_stale_picture(
    scheduler: Scheduler, kube: Kube
) -> None:
    """OPS-13: nothing is decided by an incomplete mirror."""
    handover, problem, stop = scheduler.planner.handover, "stale", asyncio.Event()

    async def nominated() -> Any:
        return await nomination(kube, "web")

    async with asyncio.TaskGroup() as group:
        group.create_task(handover.run(stop, lambda: problem))
        await wait_until(lambda: handover.last_progress, "the loop turns")
        assert handover.server == ""
        problem = ""
        await wait_until(lambda: handover.active, "the server was asked")
        await planned_on_node(scheduler, kube, handover)
        assert await wait_until(nominated, "the pod is nominated") == "n"
        stop.set()
