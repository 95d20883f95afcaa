"""The termination saga against an API server and EC2 (TRM-01..TRM-17, scenarios 33-36)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from services.terminator.eviction import Evictions
from services.terminator.termination import (
    ABSENT_SECONDS,
    AGAIN,
    DONE,
    INSTANCE_SECONDS,
    Termination,
)
from services.terminator.work import Work
from services.terminator.writing import Writer
from shared import streams
from shared.bus import Bus
from shared.cloud.session import Cloud
from shared.domain.nodepools import SelectorTerm
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODES, PDBS, PODS, Resource
from shared.messages import MachineTerminated
from shared.metrics import Metrics
from shared.settings import TerminatorSettings, read
from tests.services.conftest import (
    CLUSTER,
    Control,
    create_machine,
    create_node,
    create_running_pod,
)
from tests.support.fake_clock import FakeClock

Step = Callable[[str], Awaitable[bool]]


@pytest.fixture
def termination(
    kube: Kube, cloud: Cloud, bus: Bus, clock: FakeClock, metrics: Metrics, recorder: Recorder
) -> Termination:
    settings = read(TerminatorSettings, cluster_name=CLUSTER, aws_region="us-west-2")
    machines = Machines(kube)
    writer = Writer(kube, machines, bus, clock, recorder, metrics)
    evictions = Evictions(kube, clock, writer, metrics)
    return Termination(kube, machines, cloud, clock, settings, metrics, writer, evictions)


@pytest.fixture
async def instance(cloud: Cloud, control: Control) -> str:
    """A running instance; its provider id."""
    subnets = await cloud.ec2.subnets([SelectorTerm(tags={"karpenter.sh/discovery": CLUSTER})])
    image = await cloud.ssm.parameter(
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"
    )
    template, _ = await cloud.launch_templates.ensure("nodes", {"ImageId": image}, {"a": "b"})
    launched = await cloud.ec2.create_fleet(
        {
            "Type": "instant",
            "ClientToken": "token",
            "TargetCapacitySpecification": {
                "TotalTargetCapacity": 1,
                "DefaultTargetCapacityType": "on-demand",
            },
            "LaunchTemplateConfigs": [
                {
                    "LaunchTemplateSpecification": {
                        "LaunchTemplateId": template.id,
                        "Version": str(template.version),
                    },
                    "Overrides": [{"InstanceType": "m5.large", "SubnetId": subnets[0].id}],
                }
            ],
        }
    )
    return f"aws:///us-west-2a/{launched.instances[0].id}"


@pytest.fixture
async def machine(kube: Kube, instance: str) -> str:
    """A launched Machine with its node; its name."""
    stored = await create_machine(kube)
    name = stored["metadata"]["name"]
    status = {"providerID": instance, "nodeName": "node-1"}
    await kube.patch(MACHINES, name, {"status": status}, subresource="status")
    await create_node(kube, instance)
    return str(name)


async def exists(kube: Kube, resource: Resource, name: str, namespace: str | None = None) -> bool:
    try:
        await kube.get(resource, name, namespace)
    except NotFound:
        return False
    return True


async def until_done(step: Step, name: str, clock: FakeClock) -> int:
    """Steps with ten seconds between them; how many it took."""
    for count in range(1, 200):
        if await step(name) is DONE:
            return count
        clock.advance(10)
    raise AssertionError("the termination does not end")


async def stop_pods(kube: Kube) -> None:
    """What the kubelet does with pods that are to go."""
    for raw in (await kube.list(PODS)).items:
        meta = raw["metadata"]
        if meta.get("deletionTimestamp"):
            await kube.delete(PODS, meta["name"], meta["namespace"], grace_seconds=0)


async def test_a_deleted_machine_goes_with_node_and_instance(
    termination: Termination, kube: Kube, machine: str, control: Control, clock: FakeClock,
    published: Any,
) -> None:  # fmt: skip
    """TRM-02..TRM-05, TRM-15: cordon, evict, terminate, wait for EC2, then the objects."""
    await create_running_pod(kube, "web", "node-1")
    await kube.delete(MACHINES, machine)
    assert await termination.step_machine(machine) is AGAIN
    node = await kube.get(NODES, "node-1")
    assert node["spec"]["unschedulable"] is True
    assert node["metadata"]["deletionTimestamp"]
    balancers = "node.kubernetes.io/exclude-from-external-load-balancers"
    assert node["metadata"]["labels"][balancers] == "karpenter"
    assert (await kube.get(PODS, "web", "default"))["metadata"]["deletionTimestamp"]
    assert control.alive(), "not before the pod has left"
    await stop_pods(kube)
    await until_done(termination.step_machine, machine, clock)
    assert control.alive() == []
    assert not await exists(kube, NODES, "node-1")
    assert not await exists(kube, MACHINES, machine)
    assert await published(streams.MACHINES) == [MachineTerminated(machine=f"Machine/{machine}")]
    assert await termination.step_machine(machine) is DONE


async def test_a_drain_lasts_at_least_five_seconds(
    termination: Termination, kube: Kube, machine: str, control: Control, clock: FakeClock
) -> None:
    """TRM-05: load balancers must have seen the cordon."""
    await kube.delete(MACHINES, machine)
    await termination.step_machine(machine)
    clock.advance(4.9)
    await termination.step_machine(machine)
    assert control.alive()
    clock.advance(0.2)
    await termination.step_machine(machine)
    assert control.alive() == []


async def test_a_disruption_budget_holds_the_drain_until_it_allows(
    termination: Termination, kube: Kube, machine: str, control: Control, clock: FakeClock,
    events: Any,
) -> None:  # fmt: skip
    """TRM-08, scenario 34."""
    await create_running_pod(kube, "web", "node-1", labels={"app": "web"})
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await kube.create(PDBS, budget)
    await kube.delete(MACHINES, machine)
    for _ in range(3):
        assert await termination.step_machine(machine) is AGAIN
        clock.advance(10)
    assert control.alive()
    assert not (await kube.get(PODS, "web", "default"))["metadata"].get("deletionTimestamp")
    refused = termination.metrics.registry.get_sample_value(
        "karpenter_pods_eviction_requests_total", {"code": "429"}
    )
    assert refused == 3
    assert await events() == [("FailedDraining", "node-1")]
    allowed = {"status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}}
    await kube.patch(PDBS, "web", allowed, "default", subresource="status")
    await termination.step_machine(machine)
    await stop_pods(kube)
    await until_done(termination.step_machine, machine, clock)
    assert not await exists(kube, MACHINES, machine)


async def test_a_do_not_evict_pod_holds_the_drain(
    termination: Termination, kube: Kube, machine: str, control: Control, clock: FakeClock
) -> None:
    """TRM-09, scenario 35: an explicit deletion waits for it."""
    await create_running_pod(
        kube, "batch", "node-1", annotations={"karpenter.sh/do-not-evict": "true"}
    )
    await kube.delete(MACHINES, machine)
    for _ in range(5):
        assert await termination.step_machine(machine) is AGAIN
        clock.advance(60)
    assert control.alive()
    assert not (await kube.get(PODS, "batch", "default"))["metadata"].get("deletionTimestamp")
    await kube.delete(PODS, "batch", "default", grace_seconds=0)
    await until_done(termination.step_machine, machine, clock)
    assert not await exists(kube, NODES, "node-1")


async def test_an_ended_instance_needs_no_drain(
    termination: Termination,
    kube: Kube,
    machine: str,
    instance: str,
    cloud: Cloud,
    clock: FakeClock,
) -> None:
    """TRM-03 (1), scenario 36: nobody is there to stop the pods."""
    await create_running_pod(
        kube, "batch", "node-1", annotations={"karpenter.sh/do-not-evict": "true"}
    )
    await cloud.ec2.terminate([instance.rpartition("/")[2]])
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    await kube.patch(NODES, "node-1", not_ready, subresource="status")
    await kube.delete(MACHINES, machine)
    await until_done(termination.step_machine, machine, clock)
    assert not await exists(kube, MACHINES, machine)
    assert not await exists(kube, NODES, "node-1")


async def test_an_instance_that_ec2_does_not_know_is_gone_after_a_minute(
    termination: Termination, kube: Kube, control: Control, cloud: Cloud, clock: FakeClock
) -> None:
    """F20: EC2's lists lag behind; absence proves something only after a while."""
    stored = await create_machine(kube)
    name = stored["metadata"]["name"]
    status = {"providerID": "aws:///us-west-2a/i-0123456789abcdef0"}
    await kube.patch(MACHINES, name, {"status": status}, subresource="status")
    await kube.delete(MACHINES, name)
    assert await termination.step_machine(name) is AGAIN
    clock.advance(ABSENT_SECONDS - 1)
    assert await termination.step_machine(name) is AGAIN
    clock.advance(INSTANCE_SECONDS)
    assert await termination.step_machine(name) is DONE
    assert not await exists(kube, MACHINES, name)


async def test_a_node_deleted_by_hand_takes_machine_and_instance_with_it(
    termination: Termination, kube: Kube, machine: str, control: Control, clock: FakeClock
) -> None:
    """TRM-02, TRM-17, scenario 33: the node does not vanish first."""
    await kube.delete(NODES, "node-1")
    assert await exists(kube, NODES, "node-1")
    assert await termination.step_node("node-1") is AGAIN
    assert (await kube.get(MACHINES, machine))["metadata"]["deletionTimestamp"]
    await until_done(termination.step_node, "node-1", clock)
    assert control.alive() == []
    assert not await exists(kube, NODES, "node-1")
    assert not await exists(kube, MACHINES, machine)


async def test_a_node_without_a_machine_is_ended_all_the_same(
    termination: Termination, kube: Kube, instance: str, control: Control, clock: FakeClock
) -> None:
    """TRM-17: no leaked instance, whatever became of the Machine."""
    await create_node(kube, instance)
    await kube.delete(NODES, "node-1")
    await until_done(termination.step_node, "node-1", clock)
    assert control.alive() == []
    assert not await exists(kube, NODES, "node-1")


async def test_an_unlaunched_machine_goes_at_once_but_not_during_its_launch(
    termination: Termination, kube: Kube, cloud: Cloud
) -> None:
    """F1: an open LaunchRecord may still make an instance."""
    stored = await create_machine(kube)
    meta = stored["metadata"]
    record = {
        "metadata": {"name": "lr-1"},
        "spec": {
            "machines": [{"name": meta["name"], "uid": meta["uid"]}],
            "clientToken": "lr-1",
            "attempt": 0,
            "request": {},
            "createdAt": "2026-01-01T00:00:00Z",
        },
    }
    await kube.create(LAUNCH_RECORDS, record)
    await kube.delete(MACHINES, meta["name"])
    assert await termination.step_machine(meta["name"]) is AGAIN
    await kube.delete(LAUNCH_RECORDS, "lr-1")
    assert await termination.step_machine(meta["name"]) is DONE
    assert not await exists(kube, MACHINES, meta["name"])


async def test_nothing_without_a_deletion_timestamp_is_touched(
    termination: Termination, kube: Kube, machine: str, control: Control
) -> None:
    """R1: a forged or late message is harmless."""
    assert await termination.step_machine(machine) is DONE
    assert await termination.step_node("node-1") is DONE
    assert control.alive()
    node = await kube.get(NODES, "node-1")
    assert not node["spec"].get("unschedulable")


async def test_the_timed_look_finds_what_no_message_said(
    termination: Termination, kube: Kube, machine: str, metrics: Metrics
) -> None:
    """R2."""
    work = Work(termination, kube, metrics, 1.0)
    await work.resync()
    assert work.open == []
    await kube.delete(MACHINES, machine)
    await kube.delete(NODES, "node-1")
    await work.resync()
    await work.resync()
    assert work.open == [f"Machine/{machine}", "Node/node-1"]
    found = metrics.registry.get_sample_value(
        "dovetail_resync_found_work_total", {"loop": "terminator"}
    )
    assert found == 2
