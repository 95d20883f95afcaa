"""The termination saga against an API server and EC2 (TRM-01..TRM-17, ACC-33..ACC-36)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from services.terminator.instances import READ_SECONDS
from services.terminator.waiting.step import DONE
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.errors import Throttled
from shared.kube.listing import KubeList
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODES, Resource
from shared.redis import streams
from shared.redis.messages import MachineTerminated
from tests.services.conftest import Control, create_machine
from tests.services.terminator.world import Place, World
from tests.support.clock.fake import FakeClock
from tests.support.metrics.pages import Scraped

BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
HELD = {"karpenter.sh/do-not-evict": "true"}


@pytest.fixture
async def place(world: World) -> Place:
    """A Machine with its node."""
    return (await world.places([V1ALPHA5]))[0]


async def test_a_deleted_machine_goes_with_node_and_instance(
    world: World, place: Place, control: Control, published: Any
) -> None:
    """TRM-02..TRM-05, TRM-15: cordon, evict, terminate, wait for EC2, then the objects."""
    pod = world.pod("web", place.node)
    world.delete(place)
    await world.step()
    node = await world.kube.get(NODES, place.node)
    assert node["spec"]["unschedulable"] is True
    assert "taints" not in node["spec"], "KEY-04: v1alpha5 knows only the cordon"
    assert node["metadata"]["deletionTimestamp"]
    assert node["metadata"]["labels"][BALANCERS] == "karpenter"
    assert world.leaving(pod)["deletionTimestamp"]
    world.clock.advance(10)
    await world.step()
    assert control.alive(), "not before the pod has left"
    await world.until_gone(place)
    assert control.alive() == []
    assert await published(streams.MACHINES) == [MachineTerminated(machine=place.key)]
    assert await world.termination.step_machine(place.key) is DONE


async def test_a_drain_lasts_at_least_five_seconds(
    world: World, place: Place, control: Control
) -> None:
    """TRM-05: load balancers must have seen the cordon."""
    world.delete(place)
    await world.step()
    world.clock.advance(4.9)
    await world.step()
    assert control.alive()
    world.clock.advance(0.2)
    await world.step()
    assert control.alive() == []


@pytest.mark.parametrize("generation", [V1, V1ALPHA5])
async def test_pods_that_came_to_a_node_opened_again_are_drained_before_its_instance_ends(
    world: World, control: Control, generation: str
) -> None:
    """TRM-02, I4: somebody uncordons a drained node whose instance EC2 does not end yet (seed 60199 of mixed)."""
    (place,) = await world.places([generation])
    code = "RequestLimitExceeded"
    control.post("faults", action="TerminateInstances", status=503, code=code, count=1)
    world.delete(place)
    await world.step()
    world.clock.advance(10)
    with pytest.raises(Throttled):
        await world.step()
    opened = {"unschedulable": None, "taints": None}
    world.store.patch("nodes", place.node, {"spec": opened})
    world.pod("web", place.node)
    await world.budget("web", "web", minAvailable=1)
    for _ in range(3):
        await world.turn(10)
    assert control.alive(), "its pod may not leave"
    world.store.delete("poddisruptionbudgets", "web", group="policy", namespace="default")
    await world.until_gone(place)
    assert control.alive() == []


async def test_a_disruption_budget_holds_the_drain_until_it_allows(
    world: World, place: Place, control: Control, events: Any
) -> None:
    """TRM-08, ACC-34: after that the drain is done within the longest pause."""
    pod = world.pod("web", place.node)
    await world.budget("web", "web", minAvailable=1)
    world.delete(place)
    for _ in range(3):
        await world.turn(10)
    assert control.alive()
    assert "deletionTimestamp" not in world.leaving(pod)
    count = world.metrics.registry.get_sample_value
    assert count("karpenter_pods_eviction_requests_total", {"code": "429"}) == 3
    assert count("dovetail_drain_seconds", {"node": place.node}) == 20
    assert count("dovetail_drain_deadline_seconds", {"node": place.node}) is None
    assert await events() == [("FailedDraining", place.node)]
    relaxed = {"spec": {"minAvailable": 0}}
    world.store.patch("poddisruptionbudgets", "web", relaxed, group="policy", namespace="default")
    await world.count_budgets()
    await world.until_gone(place)
    assert count("dovetail_drain_seconds", {"node": place.node}) is None


async def test_a_do_not_evict_pod_holds_the_drain(
    world: World, place: Place, control: Control
) -> None:
    """TRM-09, ACC-35: an explicit deletion waits for it."""
    pod = world.pod("batch", place.node, annotations=HELD, owned=False)
    world.delete(place)
    for _ in range(5):
        await world.turn(60)
    assert control.alive()
    assert "deletionTimestamp" not in world.leaving(pod)
    world.store.delete("pods", pod, namespace="default", grace_seconds=0)
    await world.until_gone(place)


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
async def test_an_ended_instance_needs_no_drain(world: World, generation: str) -> None:
    """TRM-03 (1), ACC-36: nobody is there to stop the pods."""
    (place,) = await world.places([generation])
    pod = world.pod("batch", place.node, annotations=HELD, owned=False)
    await world.cloud.ec2.terminate([place.instance])
    world.not_ready(place.node)
    world.delete(place)
    await world.step()
    assert "deletionTimestamp" not in world.leaving(pod)
    await world.until_gone(place)
    node = {"node": place.node}
    assert world.metrics.registry.get_sample_value("dovetail_drain_seconds", node) is None


async def test_an_instance_that_ec2_does_not_know_is_gone_after_minutes(
    world: World, clock: FakeClock
) -> None:
    """F20: EC2's lists lag behind; absence proves something only after a while."""
    stored = await create_machine(world.kube)
    name = stored["metadata"]["name"]
    status = {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"}
    await world.kube.patch(MACHINES, name, {"status": status}, subresource="status")
    await world.kube.delete(MACHINES, name)
    step = world.termination.step_machine
    assert await step(name) is not DONE
    clock.advance(ALL_LISTED_SECONDS - 1)
    assert await step(name) is not DONE
    clock.advance(READ_SECONDS)
    assert await step(name) is DONE
    assert world.store.find("machines", name, group="karpenter.sh") is None


async def test_a_ready_node_speaks_for_an_instance_that_ec2_does_not_know(
    world: World, place: Place, control: Control, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F23, TRM-17: the wrong region answers. The drain goes on, but to let go of the machine would leak its instance;
    once the region is right, or the node falls silent, the termination ends."""

    async def of_another_region(*_: Any, **__: Any) -> list[Any]:
        return []

    world.delete(place)
    with monkeypatch.context() as patch:
        patch.setattr(world.cloud.ec2, "instances", of_another_region)
        for _ in range(12):
            await world.turn(20)
    assert not world.is_gone(place)
    assert control.alive() == [place.instance]
    told = await events()
    assert {("FailedTermination", place.node), ("FailedTermination", place.machine)} <= set(told)
    await world.until_gone(place)
    assert control.alive() == []


async def test_an_order_that_ec2_does_not_take_is_told_and_given_again(
    world: World, place: Place, control: Control, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRM-14: the end of an instance; MET-10: metrics of the cloud."""
    refused = 0

    async def refuse(*_: Any, **__: Any) -> list[Any]:
        nonlocal refused
        refused += 1
        raise Throttled("slow down")

    world.delete(place)
    with monkeypatch.context() as patch:
        patch.setattr(world.cloud.ec2, "terminate", refuse)
        for _ in range(5):
            with suppress(Throttled):  # the service's work is given up and done again
                await world.turn(10)
    assert control.alive() == [place.instance]
    assert refused
    assert ("FailedTermination", place.node) in await events()
    name = "karpenter_cloudprovider_instance_termination_failures_total"
    (failures,) = Scraped(world.metrics.text()).of(name, "zone").values()
    assert failures == refused
    await world.until_gone(place)
    assert control.alive() == []


async def test_a_node_deleted_by_hand_takes_machine_and_instance_with_it(
    world: World, place: Place, control: Control
) -> None:
    """TRM-02, TRM-17, ACC-33: the node does not vanish first."""
    world.delete_node(place.node)
    await world.step()
    machine = world.machine(place)
    assert machine is not None
    assert machine["metadata"]["deletionTimestamp"]
    assert world.store.find(NODES.plural, place.node)
    assert control.alive()
    await world.until_gone(place)
    assert control.alive() == []


@pytest.mark.parametrize("labels", [None, {}])
async def test_a_node_without_a_machine_is_ended_all_the_same(
    world: World, control: Control, labels: dict[str, str] | None
) -> None:
    """TRM-17, ACC-82: no leaked instance, whatever became of the machine; the finalizer alone makes it ours."""
    (provider_id,) = await world.instances(1)
    world.node("alone", provider_id, labels=labels)
    world.pod("web", "alone")
    world.delete_node("alone")
    await world.until_gone(Place("NodeClaim", "none", "alone", provider_id))
    assert control.alive() == []
    assert world.healthy("web") == 1


async def test_a_foreign_node_is_left_alone(world: World, control: Control) -> None:
    """R1: a message about a node without our finalizer changes nothing."""
    (provider_id,) = await world.instances(1)
    world.node("foreign", provider_id, finalizers=("somebody.else/holds",))
    world.delete_node("foreign")
    assert await world.queue.step("Node", "foreign") is DONE
    assert control.alive()


async def test_a_node_that_never_joined_is_not_drained(world: World) -> None:
    """TRM-02: nothing runs on it; its object goes after its instance."""
    (provider_id,) = await world.instances(1)
    stored = await create_machine(world.kube)
    name = stored["metadata"]["name"]
    status = {"providerID": provider_id, "nodeName": "late"}
    await world.kube.patch(MACHINES, name, {"status": status}, subresource="status")
    world.node("late", provider_id, V1ALPHA5, finalizers=())
    place = Place("Machine", name, "late", provider_id)
    world.delete(place)
    await world.step()
    assert world.control.alive() == [], "at once"
    assert world.store.find(NODES.plural, "late")
    await world.until_gone(place)


async def test_a_node_without_our_finalizer_is_drained_before_it_goes(world: World) -> None:
    """F24: somebody stripped it; to delete such a node first would cost its pods their grace."""
    (place,) = await world.places([V1])
    bare = {"metadata": {"finalizers": None}}
    world.store.patch(NODES.plural, place.node, bare)
    pod = world.pod("web", place.node)
    world.delete(place)
    await world.step()
    assert world.leaving(pod)["deletionTimestamp"]
    assert world.store.find(NODES.plural, place.node)
    await world.until_gone(place)


async def test_another_machines_node_with_the_same_name_is_not_touched(
    world: World, control: Control
) -> None:
    """F24: names come again, provider ids do not."""
    first, second = await world.places([V1, V1])
    world.store.patch(
        "nodeclaims", first.machine, {"status": {"nodeName": second.node}},
        group="karpenter.sh", subresource="status",
    )  # fmt: skip
    world.delete(first)
    await world.until_gone(first)
    assert control.alive() == [second.instance]
    node = await world.kube.get(NODES, second.node)
    assert "taints" not in node["spec"]
    assert "deletionTimestamp" not in node["metadata"]


def record_of(meta: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "lr-1"},
        "spec": {
            "machines": [{"name": meta["name"], "uid": meta["uid"]}],
            "clientToken": "lr-1",
            "attempt": 0,
            "request": {},
            "createdAt": "2026-01-01T00:00:00Z",
        },
    }


async def test_an_unlaunched_machine_goes_at_once_but_not_during_its_launch(world: World) -> None:
    """F1: an open LaunchRecord may still make an instance."""
    meta = (await create_machine(world.kube))["metadata"]
    await world.kube.create(LAUNCH_RECORDS, record_of(meta))
    await world.kube.delete(MACHINES, meta["name"])
    step = world.termination.step_machine
    assert await step(meta["name"]) is not DONE
    await world.kube.delete(LAUNCH_RECORDS, "lr-1")
    assert await step(meta["name"]) is DONE
    assert world.store.find("machines", meta["name"], group="karpenter.sh") is None


async def test_a_launch_that_ends_between_two_reads_is_not_lost(
    world: World, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: the record is gone because the machine has its instance by now."""
    meta = (await create_machine(world.kube))["metadata"]
    (provider_id,) = await world.instances(1)
    await world.kube.delete(MACHINES, meta["name"])
    listed = world.termination.lists.launch_records

    async def launch_ends_meanwhile() -> Any:
        status = {"providerID": provider_id}
        await world.kube.patch(MACHINES, meta["name"], {"status": status}, subresource="status")
        return await listed()

    monkeypatch.setattr(world.termination.lists, "launch_records", launch_ends_meanwhile)
    assert await world.termination.step_machine(meta["name"]) is not DONE
    await world.until_gone(Place("Machine", meta["name"], "none", provider_id))
    assert control.alive() == []


async def test_nothing_without_a_deletion_timestamp_is_touched(
    world: World, place: Place, control: Control
) -> None:
    """R1: a forged or late message is harmless."""
    assert await world.queue.step("Machine", place.machine) is DONE
    assert await world.queue.step("Node", place.node) is DONE
    assert control.alive()
    node = await world.kube.get(NODES, place.node)
    assert not node["spec"].get("unschedulable")


async def test_the_timed_look_finds_what_no_message_said(world: World) -> None:
    """R2; a node is its machine's business."""
    first, second = await world.places([V1ALPHA5, V1])
    await world.queue.resync()
    assert world.queue.open == []
    world.delete(first)
    world.delete_node(first.node)
    world.delete_node(second.node)
    await world.queue.resync()
    await world.queue.resync()
    assert world.queue.open == [first.key, f"Node/{second.node}"]
    found = world.metrics.registry.get_sample_value(
        "dovetail_resync_found_work_total", {"loop": "terminator"}
    )
    assert found == 2


async def test_the_timed_look_reads_metadata_only(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole nodes are ten times as long."""
    await world.places([V1ALPHA5, V1])
    asked: list[bool] = []
    pages = world.kube.pages

    def noted(resource: Resource, *arguments: Any, **named: Any) -> AsyncGenerator[KubeList, None]:
        asked.append(bool(named.get("metadata_only")))
        return pages(resource, *arguments, **named)

    monkeypatch.setattr(world.kube, "pages", noted)
    await world.queue.resync()
    assert asked == [True, True, True]
