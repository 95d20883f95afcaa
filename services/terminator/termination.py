"""The termination saga, one small step at a time (TRM-01..15).

Each step reads the Machine, its node and its instance afresh and does the next thing that is due: delete the node
object, cordon, evict, terminate the instance, wait until EC2 says it is terminated, take off the finalizers. A crash
between any two steps costs nothing: the next look goes on from what the objects say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.terminator.drain import DrainStep, next_evictions
from services.terminator.writing import Writer
from shared.api.nodes import parse_node
from shared.api.pods import parse_pod
from shared.clock import Clock
from shared.cloud.records import Instance
from shared.cloud.session import Cloud
from shared.domain.machines import Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pods import Pod
from shared.errors import Conflict, EvictionBlocked, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS, NODES, PODS
from shared.log import get_logger
from shared.metrics import Metrics
from shared.settings import TerminatorSettings

log = get_logger(__name__)

DONE, AGAIN = True, False
GONE_STATES = frozenset({"terminated"})
ABSENT_SECONDS = 60.0
"""F20: an instance that EC2 does not know proves nothing before it was unknown for this long."""


@dataclass
class Termination:
    """Takes Machines and our nodes away."""

    kube: Kube
    machines: Machines
    cloud: Cloud
    clock: Clock
    settings: TerminatorSettings
    metrics: Metrics
    writer: Writer
    _drain_began: dict[str, float] = field(default_factory=dict)
    _absent_since: dict[str, float] = field(default_factory=dict)

    async def step_machine(self, key: str) -> bool:
        """The next step for a machine. DONE when there is none left."""
        try:
            machine = await self.machines.get(key)
        except NotFound:
            return DONE
        if not machine.terminating:
            return DONE
        if not machine.provider_id:
            return await self._end_unlaunched(machine)
        node = await self._node(machine)
        if node is not None and not node.terminating:
            await self._delete_node(node)
        if not await self._end_instance(machine.provider_id, node, machine.name):
            return AGAIN
        if node is not None:
            await self.writer.release_node(node)
        await self.writer.release_machine(machine)
        self._forget(machine.provider_id)
        return DONE

    async def step_node(self, name: str) -> bool:
        """A node of ours was deleted: its Machine goes too; without a Machine the node is ended here."""
        try:
            node = parse_node(await self.kube.get(NODES, name))
        except NotFound:
            return DONE
        if not node.terminating or not node.is_managed:
            return DONE
        for machine in await self.machines.list():
            if machine.provider_id and machine.provider_id == node.provider_id:
                if not machine.terminating:
                    await self.writer.delete_machine(machine)
                return await self.step_machine(machine.key)
        if not await self._end_instance(node.provider_id, node, ""):
            return AGAIN
        await self.writer.release_node(node)
        self._forget(node.provider_id)
        return DONE

    async def _end_unlaunched(self, machine: Machine) -> bool:
        """No instance yet. An open LaunchRecord may still make one: the launcher ends that first."""
        for raw in (await self.kube.list(LAUNCH_RECORDS)).items:
            if any(subject["uid"] == machine.uid for subject in raw["spec"]["machines"]):
                return AGAIN
        await self.writer.release_machine(machine)
        return DONE

    async def _node(self, machine: Machine) -> Node | None:
        """The node by provider id: a name may be another machine's by now (F24)."""
        if machine.node_name:
            try:
                node = parse_node(await self.kube.get(NODES, machine.node_name))
            except NotFound:
                pass
            else:
                if node.provider_id == machine.provider_id:
                    return node
        for raw in (await self.kube.list(NODES)).items:
            if _provider_id(raw) == machine.provider_id:
                return parse_node(raw)
        return None

    async def _delete_node(self, node: Node) -> None:
        try:
            await self.kube.delete(NODES, node.name, uid=node.uid)
        except (NotFound, Conflict):
            log.info("node changed meanwhile", node=node.name)

    async def _end_instance(self, provider_id: str, node: Node | None, machine: str) -> bool:
        """Drain, terminate, and wait for EC2. True when the instance is gone for good."""
        instance_id = provider_instance_id(provider_id)
        if not instance_id:
            return True  # no instance of ours was ever behind this node
        instance = await self._instance(instance_id)
        if self._is_gone(instance_id, instance):
            return True
        reachable = node is not None and (node.ready or instance is not None)
        if node is not None and reachable and not await self._drained(node, instance):
            return False
        if instance is not None and instance.state not in ("shutting-down", "terminated"):
            log.info("terminating instance", id=instance_id, machine=machine)
            await self.cloud.ec2.terminate([instance_id])
        return False

    async def _instance(self, instance_id: str) -> Instance | None:
        try:
            found = await self.cloud.ec2.instances(ids=[instance_id])
        except NotFound:
            return None
        return found[0] if found else None

    def _is_gone(self, instance_id: str, instance: Instance | None) -> bool:
        """``terminated`` is proof; absence is one only after a while (F20)."""
        if instance is not None:
            self._absent_since.pop(instance_id, None)
            return instance.state in GONE_STATES
        now = self.clock.monotonic()
        return now - self._absent_since.setdefault(instance_id, now) >= ABSENT_SECONDS

    async def _drained(self, node: Node, instance: Instance | None) -> bool:
        """One round of evictions. True when nothing is left to wait for."""
        if not node.ready and instance is not None and instance.state != "running":
            return True  # TRM-03 (1): nobody is there to stop the pods
        if not node.unschedulable:
            await self.writer.cordon(node)
        now = self.clock.monotonic()
        began = self._drain_began.setdefault(node.uid, now)
        listed = await self.kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        step = next_evictions(parse_pod(raw) for raw in listed.items)
        await self._evict(node, step)
        if step.left or now - began < self.settings.drain_minimum:
            return False
        self._drain_began.pop(node.uid, None)
        return True

    async def _evict(self, node: Node, step: DrainStep) -> None:
        for pod in step.held:
            await self.writer.blocked(node, pod, "it has the annotation karpenter.sh/do-not-evict")
        for pod in step.evict:
            await self._evict_one(node, pod)

    async def _evict_one(self, node: Node, pod: Pod) -> None:
        """TRM-08."""
        try:
            await self.kube.evict(pod.name, pod.namespace, uid=pod.uid)
        except (NotFound, Conflict):
            code = "404"
        except EvictionBlocked as error:
            code = "429"
            await self.writer.blocked(node, pod, error.message)
        else:
            code = "201"
            log.info("evicted pod", pod=pod.key, node=node.name)
            await self.writer.evicted(pod)
        self.metrics.evictions.labels(code).inc()

    def _forget(self, provider_id: str) -> None:
        self._absent_since.pop(provider_instance_id(provider_id), None)


def _provider_id(raw: Mapping[str, Any]) -> str:
    return str((raw.get("spec") or {}).get("providerID") or "")
