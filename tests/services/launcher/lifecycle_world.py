"""Machines with instances and nodes, without going through a launch: for the tests of what comes after it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.launcher.ports import Ports
from services.launcher.service import Launcher
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, TOKEN_TAG, cluster_tag
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import provider_instance_id
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import LAUNCH_RECORDS, MACHINES, NODE_CLAIMS, NODES
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff
from shared.redis.mirror.pools.registrations import RegistrationOutcomes
from shared.settings import LauncherSettings, read
from tests.services.conftest import CLUSTER, create_machine, create_node_claim
from tests.services.launcher.terminator_part import TerminatorPart
from tests.support.clock.fake import FakeClock

IMAGE = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"


@dataclass
class World:
    """The launcher's parts for what comes after a launch, and what makes objects for them."""

    kube: Kube
    cloud: Cloud
    bus: Bus
    clock: FakeClock
    metrics: Metrics
    recorder: Recorder
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    template: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.settings = read(LauncherSettings, cluster_name=CLUSTER, aws_region="us-west-2")
        self.outcomes = RegistrationOutcomes(self.bus.redis, self.bus.prefix)
        self.backoff = LaunchBackoff(self.bus.redis, self.bus.prefix)
        self.shifted = ShiftedZones(self.bus.redis, self.bus.prefix, self.clock)
        self.restart()

        self.terminator = TerminatorPart(self.kube, self.cloud, self.bus, self.clock)

    def restart(self) -> None:
        """A new incarnation remembers nothing of the last."""
        self.ports = Ports(
            self.kube, self.cloud, self.bus, self.clock, self.metrics, self.recorder, self.settings
        )
        made = Launcher(self.ports)
        self.garbage, self.lifecycle, self.handlers = made.garbage, made.lifecycle, made.handlers
        self.machines, self.writer, self.health = made.machines, made.writer, made.health

    async def instances(self, tags: dict[str, str], number: int = 1) -> list[str]:
        """Running instances with these tags."""
        used, override = await self._template()
        target = {"TotalTargetCapacity": number, "DefaultTargetCapacityType": "on-demand"}
        listed = [{"Key": key, "Value": value} for key, value in tags.items()]
        answer = await self.cloud.ec2.create_fleet(
            {
                "Type": "instant",
                "ClientToken": f"world-{next(self.numbers)}",
                "TargetCapacitySpecification": target,
                "LaunchTemplateConfigs": [
                    {"LaunchTemplateSpecification": used, "Overrides": [override]}
                ],
                "TagSpecifications": [{"ResourceType": "instance", "Tags": listed}],
            }
        )
        return [instance.id for instance in answer.instances]

    async def _template(self) -> tuple[dict[str, str], dict[str, str]]:
        """What every instance starts from, and where."""
        if not self.template:
            term = SelectorTerm(tags={"karpenter.sh/discovery": CLUSTER})
            subnets = await self.cloud.ec2.subnets([term])
            image = await self.cloud.ssm.parameter(IMAGE)
            made, _ = await self.cloud.launch_templates.ensure(
                "world", {"ImageId": image}, {"a": "b"}
            )
            used = {"LaunchTemplateId": made.id, "Version": str(made.version)}
            self.template.append((used, {"InstanceType": "m5.large", "SubnetId": subnets[0].id}))
        return self.template[0]

    def tags(self, name: str, generation_api: str = V1ALPHA5) -> dict[str, str]:
        """As a launch of this one machine writes them (LCH-56)."""
        ours = {cluster_tag(CLUSTER): "owned", TOKEN_TAG: f"lr-{name}", keys.MACHINE_TAG: name}
        if generation_api == V1ALPHA5:
            return {**ours, keys.PROVISIONER_NAME: "default"}
        return {
            **ours, keys.NODE_POOL: "default", keys.NODE_CLASS: "default", CLUSTER_NAME_TAG: CLUSTER,
        }  # fmt: skip

    async def launched(
        self, name: str, generation_api: str = V1ALPHA5, provider_id: str = "", **spec: Any
    ) -> Machine:
        """A machine that has its instance (a real one unless ``provider_id`` names another)."""
        if not provider_id:
            (instance,) = await self.instances(self.tags(name, generation_api))
            provider_id = f"aws:///us-west-2a/{instance}"
        make = create_machine if generation_api == V1ALPHA5 else create_node_claim
        raw = await make(self.kube, name, **spec)
        machine = await self.machines.get(f"{raw['kind']}/{name}")
        condition = Condition("True", LAUNCHED, "", self.clock.now())
        status = {"providerID": provider_id}
        await self.machines.write_condition(machine, LAUNCHED, condition, status)
        return await self.machines.get(machine.key)

    async def registered(self, name: str, generation_api: str = V1ALPHA5) -> Machine:
        """With its Ready node ``node-<name>``, carried there by the code under test."""
        machine = await self.launched(name, generation_api)
        await self.join(machine)
        await self.lifecycle.node_changed(f"node-{name}")
        machine = await self.now(machine)
        assert machine.has(REGISTERED)
        return machine

    async def join(self, machine: Machine, node: str = "", *, ready: bool = True) -> None:
        """What the kubelet writes when it comes up."""
        name = node or f"node-{machine.name}"
        taints = [{"key": keys.UNREGISTERED_TAINT_KEY, "effect": "NoExecute"}]
        spec = {"providerID": machine.provider_id, "taints": taints}
        await self.kube.create(NODES, {"metadata": {"name": name}, "spec": spec})
        if ready:
            await self.report(name)

    async def report(self, node: str, ready: str = "True") -> None:
        """The kubelet's status."""
        size = {"cpu": "2", "memory": "8Gi", "pods": "29"}
        conditions = [{"type": "Ready", "status": ready}]
        status = {"conditions": conditions, "capacity": size, "allocatable": size}
        await self.kube.patch(NODES, node, {"status": status}, subresource="status")

    async def record(self, token: str, machine: Machine) -> None:
        """An open launch of this machine, made now."""
        body = {
            "metadata": {"name": token},
            "spec": {
                "machines": [{"kind": machine.kind, "name": machine.name, "uid": machine.uid}],
                "clientToken": token,
                "attempt": 0,
                "request": {},
                "epoch": 0,
                "createdAt": rfc3339(self.clock.now()),
            },
        }
        await self.kube.create(LAUNCH_RECORDS, body)

    async def forget(self, machine: Machine) -> None:
        """The Machine is gone without a termination: somebody took its finalizer off."""
        resource = MACHINES if machine.generation_api != V1 else NODE_CLAIMS
        await self.kube.patch(resource, machine.name, {"metadata": {"finalizers": None}})
        await self.kube.delete(resource, machine.name)

    async def remove_node(self, machine: Machine) -> None:
        """The node is gone without a termination."""
        await self.kube.patch(NODES, machine.node_name, {"metadata": {"finalizers": None}})
        await self.kube.delete(NODES, machine.node_name)

    async def terminate(self, *machines: Machine) -> None:
        """As somebody does in the EC2 console."""
        ids = [provider_instance_id(machine.provider_id) for machine in machines]
        await self.cloud.ec2.terminate(ids)

    async def now(self, machine: Machine) -> Machine:
        """The machine as it is stored."""
        return await self.machines.get(machine.key)

    async def is_leaving(self, machine: Machine) -> bool:
        """Deleted, or with the order to go."""
        try:
            return (await self.now(machine)).terminating
        except NotFound:
            return True

    async def sweep(self) -> None:
        """The launcher sweeps, and the terminator carries out what it orders."""
        await self.garbage.sweep()
        await self.terminator.carry_out()

    async def sweep_twice(self) -> None:
        """Two sweeps with the grace between them (R7)."""
        await self.sweep()
        self.clock.advance(61)
        await self.sweep()


@pytest.fixture
def world(
    kube: Kube, cloud: Cloud, bus: Bus, clock: FakeClock, metrics: Metrics, recorder: Recorder
) -> World:
    """An empty one."""
    return World(kube, cloud, bus, clock, metrics, recorder)
