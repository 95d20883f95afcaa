"""A CapacityBuffer in rounds on real Redis and a real API server: bought, reported, filled again (GAT-02)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.api.core.autoscaling.capacity_buffers import parse_capacity_buffer
from shared.domain.workloads.capacity_buffers import CapacityBuffer, PodTemplate
from shared.kube.client import Kube
from shared.kube.resources import CAPACITY_BUFFERS
from shared.metrics import Metrics
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import make_bound_pod, make_node, make_pod

SPEC = {"podTemplateRef": {"name": "web"}, "replicas": 3}
TEMPLATE = PodTemplate("PodTemplate", "default", "web", make_pod("web", cpu="1"), 2)


async def created(kube: Kube, **spec: Any) -> CapacityBuffer:
    """A stored buffer, as the watcher reads it."""
    body = {"metadata": {"name": "spare"}, "spec": {**SPEC, **spec}}
    return await stored(kube, await kube.create(CAPACITY_BUFFERS, body, "default"))


async def stored(kube: Kube, raw: dict[str, Any] | None = None) -> CapacityBuffer:
    found = raw or await kube.get(CAPACITY_BUFFERS, "spare", "default")
    record = parse_capacity_buffer(found).record
    assert record is not None
    return record


async def states(kube: Kube) -> dict[str, tuple[str, str]]:
    conditions = (await stored(kube)).conditions
    return {name: (one.status, one.reason) for name, one in conditions.items()}


async def report(scheduler: Scheduler, kube: Kube) -> dict[str, tuple[str, str]]:
    """The status as it is written, which the mirror shows from then on."""
    await scheduler.planner.buffers.step()
    await scheduler.show(capacitybuffers=[await stored(kube)])
    return await states(kube)


@pytest.fixture
async def buffer(scheduler: Scheduler, kube: Kube) -> CapacityBuffer:
    made = await created(kube)
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], capacitybuffers=[made], podtemplates=[TEMPLATE])
    return made


READY = {"ReadyForProvisioning": ("True", "Resolved")}


async def test_room_is_bought_once_and_reported_until_it_is_there(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer, events: Any, metrics: Metrics
) -> None:
    """No pod waits. The status has Karpenter's names; no event names a pod that does not exist."""
    assert await report(scheduler, kube) == READY
    await scheduler.plan()
    (raw,) = await machines(kube)
    assert raw["spec"]["resources"]["requests"]["cpu"] == "3"
    assert await report(scheduler, kube) == {
        **READY,
        "Provisioning": ("False", "RequiresNewCapacity"),
    }
    await scheduler.plan("again")
    assert len(await machines(kube)) == 1
    await scheduler.show(nodes=[make_node("other")])
    await scheduler.plan("room")
    assert await report(scheduler, kube) == {
        **READY,
        "Provisioning": ("True", "FitsExistingCapacity"),
    }
    shown = (await stored(kube)).shown
    assert shown == {
        "podTemplateRef": "web", "podTemplateGeneration": 2, "replicas": 3,
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
    }  # fmt: skip
    assert await events() == []
    sample = metrics.registry.get_sample_value
    labels = {"namespace": "default", "name": "spare"}
    assert sample("dovetail_capacity_buffer_pods", {**labels, "state": "ready"}) == 3
    assert (
        sample("karpenter_scheduler_unschedulable_pods_count", {"controller": "provisioner"}) == 0
    )


async def test_a_status_that_is_right_is_not_written_again(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    await report(scheduler, kube)
    before = (await kube.get(CAPACITY_BUFFERS, "spare", "default"))["metadata"]["resourceVersion"]
    await report(scheduler, kube)
    after = (await kube.get(CAPACITY_BUFFERS, "spare", "default"))["metadata"]["resourceVersion"]
    assert after == before


async def test_real_pods_take_the_room_and_it_is_filled_again(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    """They are bound at once, and wait for no plan. The timed check finds the buffer short, with no pod waiting."""
    await scheduler.show(nodes=[make_node("other")])
    await scheduler.plan()
    assert await machines(kube) == []
    scheduler.planner._recheck()
    assert not scheduler.planner.is_batching(), "nothing changed, so nothing is planned"
    await scheduler.show(pods=[make_bound_pod("web-1", "other", cpu="2")])
    scheduler.planner._recheck()
    assert scheduler.planner.is_batching()
    await scheduler.plan()
    (raw,) = await machines(kube)
    assert raw["spec"]["resources"]["requests"]["cpu"] == "1", "two still fit beside the pod"


async def test_a_pod_that_waits_comes_first(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    """It gets the node that is there, the buffer the new machine."""
    await scheduler.show(nodes=[make_node("other", cpu="3")], pods=[make_pod("web-1", cpu="3")])
    await scheduler.plan()
    plan = scheduler.planner.last_plan
    assert plan is not None
    assert plan.existing == {"other": ("uid-web-1",)}
    assert len(await machines(kube)) == 1


async def test_nothing_is_bought_for_a_buffer_that_is_gone(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    """BAT-05: the mirror still shows it."""
    await kube.delete(CAPACITY_BUFFERS, "spare", "default")
    await scheduler.plan()
    assert await machines(kube) == []


async def test_a_restarted_scheduler_buys_nothing_twice(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    """Nobody remembers virtual pods: the same snapshot has the same ones, and so the same machine names (R4)."""
    await scheduler.plan()
    scheduler.view.created.clear()
    await scheduler.plan("b")
    assert len(await machines(kube)) == 1


async def test_a_buffer_that_shrinks_to_nothing_says_so(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    await scheduler.show(capacitybuffers=[replace(buffer, replicas=0)])
    await scheduler.plan()
    assert await machines(kube) == []
    assert await report(scheduler, kube) == {**READY, "Provisioning": ("False", "BufferEmpty")}


async def test_a_reference_to_nothing_is_named(
    scheduler: Scheduler, kube: Kube, buffer: CapacityBuffer
) -> None:
    await scheduler.show(gone=[("podtemplates", TEMPLATE.key)])
    assert await report(scheduler, kube) == {
        "ReadyForProvisioning": ("False", "PodTemplateNotFound"),
        "Provisioning": ("False", "NotReadyForProvisioning"),
    }
    assert "replicas" not in (await stored(kube)).shown


async def test_a_buffer_of_another_strategy_is_left_alone(scheduler: Scheduler, kube: Kube) -> None:
    made = await created(kube, provisioningStrategy="example.com/other")
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], capacitybuffers=[made], podtemplates=[TEMPLATE])
    await scheduler.plan()
    assert await machines(kube) == []
    await scheduler.planner.buffers.step()
    assert await states(kube) == {}
