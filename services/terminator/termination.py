"""The termination saga, one small step at a time (TRM-01..17).

Each step reads the Machine, its node and its instance afresh and does the next thing that is due: delete the node
object, close the node, evict, wait for volumes, terminate the instance, wait until EC2 says it is terminated, take off
the finalizers. A crash between any two steps costs nothing: the next look goes on from what the objects say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.terminator.drain import next_step, stays
from services.terminator.eviction import Evictions
from services.terminator.volumes import attached
from services.terminator.writing import Writer
from shared.api.nodes import parse_node
from shared.api.pods import parse_pod
from shared.clock import Clock
from shared.cloud.records import Instance
from shared.cloud.session import Cloud
from shared.domain.machines import DISRUPTION_REASON, Machine
from shared.domain.nodepools import V1, V1ALPHA5
from shared.domain.nodes import Node, provider_instance_id
from shared.domain.pods import Pod
from shared.errors import Conflict, NotFound
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
INSTANCE_SECONDS = 5.0
"""TRM-14: how often EC2 is asked about one instance."""
FORCEFUL = "Forceful Termination"


@dataclass
class Progress:
    """What is remembered of one termination; all of it may be lost. Times are monotonic."""

    began: float
    asked: float = float("-inf")
    instance: Instance | None = None
    absent_since: float | None = None
    drain_began: float | None = None
    drained: bool = False


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
    evictions: Evictions
    _progress: dict[str, Progress] = field(default_factory=dict)
    """By provider id."""

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
        machine = await self.writer.deadline(machine, node)
        if node is not None and not node.terminating:
            await self._delete_node(node)
        if not await self._end_instance(machine.provider_id, node, machine):
            return AGAIN
        await self._release(machine.provider_id, node, machine)
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
        if not await self._end_instance(node.provider_id, node, None):
            return AGAIN
        await self._release(node.provider_id, node, None)
        return DONE

    async def _release(self, provider_id: str, node: Node | None, machine: Machine | None) -> None:
        """Finalizers last, the node's before the machine's (TRM-02)."""
        progress = self._progress.pop(provider_id, None)
        seconds = self.clock.monotonic() - progress.began if progress else 0.0
        if node is not None:
            await self.writer.release_node(node, seconds)
        if machine is not None:
            await self.writer.release_machine(machine, seconds)

    async def _end_unlaunched(self, machine: Machine) -> bool:
        """No instance yet. An open LaunchRecord may still make one: the launcher ends that first."""
        for raw in (await self.kube.list(LAUNCH_RECORDS)).items:
            if any(subject["uid"] == machine.uid for subject in raw["spec"]["machines"]):
                return AGAIN
        await self.writer.release_machine(machine, 0.0)
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

    async def _end_instance(
        self, provider_id: str, node: Node | None, machine: Machine | None
    ) -> bool:
        """Drain, terminate, and wait for EC2. True when the instance is gone for good."""
        instance_id = provider_instance_id(provider_id)
        if not instance_id:
            return True  # no instance of ours was ever behind this node
        progress = self._progress.setdefault(provider_id, Progress(self.clock.monotonic()))
        await self._ask(progress, instance_id)
        if self._is_gone(progress):
            return True
        if node is not None and not await self._is_cleared(node, machine, progress):
            return False
        instance = progress.instance
        if instance is not None and instance.state not in ("shutting-down", "terminated"):
            log.info(
                "terminating instance", id=instance_id, machine=machine.name if machine else ""
            )
            await self.cloud.ec2.terminate([instance_id])
            progress.asked = float("-inf")
            if machine is not None:
                await self.writer.instance_terminating(machine)
        return False

    async def _ask(self, progress: Progress, instance_id: str) -> None:
        """What EC2 says; its word of a few seconds ago will do."""
        now = self.clock.monotonic()
        if now - progress.asked < INSTANCE_SECONDS:
            return
        try:
            found = await self.cloud.ec2.instances(ids=[instance_id])
        except NotFound:
            found = []
        progress.asked, progress.instance = now, found[0] if found else None
        if progress.instance is not None:
            progress.absent_since = None
        elif progress.absent_since is None:
            progress.absent_since = now

    def _is_gone(self, progress: Progress) -> bool:
        """``terminated`` is proof; absence is one only after a while (F20)."""
        if progress.instance is not None:
            return progress.instance.state in GONE_STATES
        since = progress.absent_since
        return since is not None and progress.asked - since >= ABSENT_SECONDS

    async def _is_cleared(self, node: Node, machine: Machine | None, progress: Progress) -> bool:
        """Nothing on the node is worth waiting for any more: pods, then volumes."""
        instance = progress.instance
        if not node.ready and (instance is None or instance.state != "running"):
            return True  # TRM-03 (1): nobody is there to stop the pods
        deadline = machine.terminate_at if machine is not None else None
        if deadline is not None and self.clock.now() >= deadline:
            return await self._elapsed(machine)
        generation = machine.generation_api if machine is not None else _generation(node)
        await self.writer.close(node, generation)
        pods = await self._pods(node)
        if not progress.drained and not await self._is_drained(
            node, machine, pods, progress, generation
        ):
            return False
        return await self._are_detached(node, machine, pods, generation)

    async def _elapsed(self, machine: Machine | None) -> bool:
        """TRM-12."""
        if machine is not None:
            await self.writer.volumes_detached(machine, elapsed=True)
        return True

    async def _is_drained(
        self,
        node: Node,
        machine: Machine | None,
        pods: list[Pod],
        progress: Progress,
        generation: str,
    ) -> bool:
        """One round of evictions. True when nothing is left to wait for (TRM-05)."""
        now = self.clock.monotonic()
        if progress.drain_began is None:
            progress.drain_began = now
            if machine is not None:
                await self.writer.draining(machine)
        deadline = machine.terminate_at if machine is not None else None
        step = next_step(pods, generation, now=self.clock.now(), deadline=deadline)
        await self.evictions.carry_out(node, step, _why(machine))
        if step.left or now - progress.drain_began < self.settings.drain_minimum:
            self.metrics.drain_seconds.labels(node.name).set(now - progress.drain_began)
            return False
        progress.drained = True
        self.evictions.forget(node)
        await self.writer.drained(node, machine)
        return True

    async def _are_detached(
        self, node: Node, machine: Machine | None, pods: list[Pod], generation: str
    ) -> bool:
        """TRM-13."""
        now = self.clock.now()
        passed_by = [pod for pod in pods if stays(pod, generation, now=now)]
        volumes = await attached(self.kube, node.name, passed_by)
        if volumes:
            await self.writer.awaiting_volumes(node, machine, volumes)
            return False
        if machine is not None:
            await self.writer.volumes_detached(machine, elapsed=False)
        return True

    async def _pods(self, node: Node) -> list[Pod]:
        listed = await self.kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        return [parse_pod(raw) for raw in listed.items]


def _provider_id(raw: Mapping[str, Any]) -> str:
    return str((raw.get("spec") or {}).get("providerID") or "")


def _generation(node: Node) -> str:
    return V1ALPHA5 if node.pool_key.startswith("Provisioner/") else V1


def _why(machine: Machine | None) -> str:
    """TRM-08."""
    if machine is None or not machine.has(DISRUPTION_REASON):
        return FORCEFUL
    return machine.conditions[DISRUPTION_REASON].reason or FORCEFUL
