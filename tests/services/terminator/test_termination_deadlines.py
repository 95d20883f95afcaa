"""NodeClaims end to end: conditions, deadlines, volumes, pods that never leave (TRM-03, TRM-05..14, ACC-75)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from shared.concurrency.clock import parse_rfc3339
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.kube.resources import NODES, PVCS, VOLUME_ATTACHMENTS
from tests.services.conftest import Control
from tests.services.terminator.world import World

TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
HELD = {"karpenter.sh/do-not-disrupt": "true"}
LEFT = "dovetail_drain_deadline_seconds"
TOLERATES_ALL = [{"operator": "Exists"}]


async def test_a_deleted_node_claim_says_how_far_it_is(
    world: World, control: Control, events: Any
) -> None:
    """TRM-03, TRM-05, TRM-13, TRM-14, TRM-08: taint, Drained, VolumesDetached, InstanceTerminating."""
    (place,) = await world.places([V1])
    world.pod("web", place.node)
    world.delete(place)
    await world.step()
    node = await world.kube.get(NODES, place.node)
    assert node["spec"]["taints"] == [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    assert "unschedulable" not in node["spec"]
    assert world.conditions(place)["Drained"] == ("Unknown", "Draining")
    await world.surroundings()
    world.clock.advance(10)
    await world.step()
    told = world.conditions(place)
    assert told["Drained"] == ("True", "Drained")
    assert told["VolumesDetached"] == ("True", "VolumesDetached")
    assert told["InstanceTerminating"] == ("True", "InstanceTerminating")
    await world.until_gone(place)
    assert control.alive() == []
    assert [reason for reason, _ in await events()] == ["Evicted"]
    sample = world.metrics.registry.get_sample_value
    pool = {"nodepool": "default"}
    for name in ("nodeclaims_termination", "nodes_termination", "nodeclaims_instance_termination"):
        assert sample(f"karpenter_{name}_duration_seconds_count", pool) == 1
    assert sample("karpenter_nodes_terminated_total", {**pool, "zone": ""}) == 1
    seconds = sample("karpenter_nodeclaims_termination_duration_seconds_sum", pool)
    assert seconds is not None
    assert seconds >= 10


async def test_an_instance_that_somebody_stopped_costs_nothing_from_then_on(
    world: World, control: Control
) -> None:
    """A stop of an hour before the order is no hour of the ledger."""
    (place,) = await world.places([V1ALPHA5])
    id_ = control.alive()[0]
    control.post("interruptions", kind="state-change", state="stopped", instanceIds=[id_])
    (instance,) = await world.cloud.ec2.instances(ids=[id_])
    assert instance.stopped_at > 0
    world.delete(place)
    await world.step()
    world.clock.advance(10)
    await world.step()
    machine = world.machine(place)
    assert machine is not None
    (told,) = [c for c in machine["status"]["conditions"] if c["type"] == "InstanceTerminating"]
    assert parse_rfc3339(told["lastTransitionTime"]) == int(instance.stopped_at)


async def test_a_deleted_machine_says_when_its_instance_was_ordered_to_end(world: World) -> None:
    """The ledger counts an instance until then. Karpenter's v1alpha5 has no condition of a drain."""
    (place,) = await world.places([V1ALPHA5])
    world.delete(place)
    await world.step()
    world.clock.advance(10)
    await world.step()
    told = world.conditions(place)
    assert told["InstanceTerminating"] == ("True", "InstanceTerminating")
    assert told.keys().isdisjoint({"Drained", "VolumesDetached"})


async def test_a_pod_is_deleted_when_its_grace_just_fits(world: World, events: Any) -> None:
    """TRM-09..TRM-12, ACC-75: at T - 60 s with 60 s of grace, past its budget and its annotation."""
    (place,) = await world.places([V1], terminationGracePeriod="10m")
    pod = world.pod("db", place.node, annotations=HELD, terminationGracePeriodSeconds=60)
    await world.budget("db", "db", maxUnavailable=0)
    world.slow.add("db")
    world.delete(place)
    began = world.clock.now()
    await world.step()
    machine = world.machine(place)
    assert machine is not None
    assert parse_rfc3339(machine["metadata"]["annotations"][TIMESTAMP]) == began + 600
    left = partial(world.metrics.registry.get_sample_value, LEFT, {"node": place.node})
    assert left() == 600
    for _ in range(9):
        world.clock.advance(59.8)
        await world.step()
        assert "deletionTimestamp" not in world.leaving(pod)
    assert left() == pytest.approx(600 - 9 * 59.8)
    world.clock.advance(began + 540 - world.clock.now())
    await world.step()
    assert world.leaving(pod)["deletionGracePeriodSeconds"] == 60
    assert parse_rfc3339(world.leaving(pod)["deletionTimestamp"]) == began + 600
    assert world.control.alive(), "its grace is its own"
    while world.control.alive():
        await world.turn(5)
    assert world.clock.now() <= began + 660
    await world.until_gone(place)
    assert left() is None
    told = await events()
    assert told.count(("FailedDraining", place.node)) == 2, "F22: every five minutes"
    assert set(told) == {
        ("Disrupted", pod),
        ("FailedDraining", place.node),
        ("TerminationGracePeriodExpiring", place.machine),
        ("TerminationGracePeriodExpiring", place.node),
    }


async def test_an_end_that_is_now_waits_for_nothing(world: World, control: Control) -> None:
    """TRM-12, TRM-22: closed, the pods told, and the instance ends in the same look; in both generations."""
    places = await world.places([V1, V1ALPHA5])
    for place in places:
        pod = world.pod("web", place.node, annotations=HELD)
        attach(world, place.node, "pv-1")
        resource = "nodeclaims" if place.kind == "NodeClaim" else "machines"
        now = {"metadata": {"annotations": {TIMESTAMP: "2026-01-01T00:00:00Z"}}}
        world.store.patch(resource, place.machine, now, group="karpenter.sh")
        world.delete(place)
        await world.step()
        assert world.leaving(pod)["deletionGracePeriodSeconds"] == 1
        assert place.instance not in control.alive()
        node = world.store.get("nodes", place.node)["spec"]
        assert node.get("taints") if place.kind == "NodeClaim" else node["unschedulable"]
        if place.kind == "NodeClaim":
            told = world.conditions(place)["VolumesDetached"]
            assert told == ("False", "TerminationGracePeriodElapsed")
    await world.until_gone(*places)


async def test_a_pod_that_never_leaves_is_passed_by_after_a_minute(world: World) -> None:
    """TRM-06: its kubelet does not confirm its end."""
    (place,) = await world.places([V1])
    pod = world.pod("web", place.node, terminationGracePeriodSeconds=30)
    world.stuck.add("web")
    world.delete(place)
    await world.turn(90)
    assert world.leaving(pod)["deletionTimestamp"]
    await world.turn(1)
    assert world.conditions(place)["Drained"] == ("Unknown", "Draining")
    await world.until_gone(place)


async def test_a_clock_that_is_ahead_does_not_make_pods_stuck(world: World) -> None:
    """TRM-06: a terminator begins an hour ahead of the API server's clock; a pod still gets its grace and a minute."""
    (place,) = await world.places([V1])
    pod = world.pod("web", place.node, terminationGracePeriodSeconds=30)
    world.stuck.add("web")
    world.delete(place)
    await world.step()
    world.clock.wall += 3600
    world.restart()
    for _ in range(10):
        await world.step()
        assert world.leaving(pod)["deletionTimestamp"]
        assert world.conditions(place)["Drained"] == ("Unknown", "Draining")
        world.clock.advance(10)
    await world.until_gone(place)


async def test_a_clock_that_jumps_ahead_brings_no_deadline_nearer(
    world: World, control: Control
) -> None:
    """TRM-11, TRM-12: neither the pods' deletions nor the end of the drain."""
    (place,) = await world.places([V1], terminationGracePeriod="5m")
    pod = world.pod("web", place.node, annotations=HELD)
    world.delete(place)
    await world.step()
    world.clock.wall += 3600
    for _ in range(5):
        await world.step()
        assert "deletionTimestamp" not in world.leaving(pod)
        world.clock.advance(50)
    assert control.alive()
    world.clock.advance(50)
    await world.step()
    assert control.alive() == []


@pytest.mark.slow
async def test_two_budgets_are_told_and_wait_for_the_deadline(world: World, events: Any) -> None:
    """F22: the eviction API answers 500 for ever."""
    (place,) = await world.places([V1], terminationGracePeriod="5m")
    pod = world.pod("web", place.node)
    for name in ("one", "two"):
        await world.budget(name, "web", minAvailable=0)
    world.delete(place)
    await world.turn(100)
    await world.turn(100)
    assert "deletionTimestamp" not in world.leaving(pod)
    count = world.metrics.registry.get_sample_value
    assert count("karpenter_pods_eviction_requests_total", {"code": "500"}) == 2
    assert ("FailedDraining", place.node) in await events()
    await world.until_gone(place)


async def test_tiers_go_one_after_the_other(world: World) -> None:
    """TRM-07: the critical pod sees the others leave."""
    (place,) = await world.places([V1])
    web = world.pod("web", place.node)
    dns = world.pod("dns", place.node, priorityClassName="system-cluster-critical")
    world.delete(place)
    await world.step()
    assert world.leaving(web)["deletionTimestamp"]
    assert "deletionTimestamp" not in world.leaving(dns)
    await world.surroundings()
    await world.step()
    assert world.leaving(dns)["deletionTimestamp"]


def attach(world: World, node: str, volume: str) -> str:
    """A VolumeAttachment, as the attach controller makes it; its name."""
    name = f"csi-{next(world.numbers)}"
    source = {"persistentVolumeName": volume}
    spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": source}
    body = {"metadata": {"name": name}, "spec": spec}
    world.store.create(VOLUME_ATTACHMENTS.plural, body, group=VOLUME_ATTACHMENTS.group)
    return name


def detach(world: World, name: str) -> None:
    world.store.delete(VOLUME_ATTACHMENTS.plural, name, group=VOLUME_ATTACHMENTS.group)


async def test_the_instance_waits_for_its_volumes(
    world: World, control: Control, events: Any
) -> None:
    """TRM-13: but not for those of pods that stay, nor for another node's attachment of a shared volume."""
    (place,) = await world.places([V1])
    world.store.create(
        PVCS.plural,
        {
            "metadata": {"name": "logs", "namespace": "default"},
            "spec": {
                "volumeName": "pv-staying",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    claim = [{"name": "logs", "persistentVolumeClaim": {"claimName": "logs"}}]
    world.pod("agent", place.node, owned=False, tolerations=TOLERATES_ALL, volumes=claim)
    attach(world, place.node, "pv-staying")
    attach(world, "elsewhere", "pv-shared")
    here = attach(world, place.node, "pv-shared")
    world.delete(place)
    for _ in range(3):
        await world.turn(10)
    assert control.alive()
    assert world.conditions(place)["VolumesDetached"] == ("Unknown", "AwaitingVolumeDetachment")
    assert await events() == [("AwaitingVolumeDetachment", place.node)]
    detach(world, here)
    await world.step()
    assert control.alive() == []
    assert world.conditions(place)["VolumesDetached"] == ("True", "VolumesDetached")


async def test_volumes_are_not_waited_for_past_the_deadline(world: World, control: Control) -> None:
    """TRM-12: past the deadline nothing is waited for; TRM-13: waiting for volumes."""
    (place,) = await world.places([V1], terminationGracePeriod="60s")
    attach(world, place.node, "pv-1")
    world.delete(place)
    for _ in range(5):
        await world.turn(11)
    assert control.alive()
    world.clock.advance(6)
    await world.step()
    assert control.alive() == []
    told = world.conditions(place)["VolumesDetached"]
    assert told == ("False", "TerminationGracePeriodElapsed")
    await world.until_gone(place)
