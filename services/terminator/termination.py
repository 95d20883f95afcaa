"""The termination saga, one small step at a time (TRM-01..17).

Each step reads the Machine, its node and its instance afresh and does the next thing that is due:

    1. delete the node object        2. drain the node and wait for its volumes
    3. terminate the instance        4. wait until EC2 says that it is terminated
    5. take our finalizer off the node, then off the Machine

A crash between any two steps costs nothing: the next step goes on from what the objects say.

A Machine whose instance ended by itself before its node joined is reported and counted against its pool (LCH-67). The
launcher does the same for Machines that it finds lost; reported by both it is one event, one failure. What may go
wrong: a kill right after the finalizer went loses the event. The pool's health is advice (F25).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.terminator.batched_lists import BatchedLists
from services.terminator.drain.controller import DrainController
from services.terminator.instances import (
    ABSENT,
    ENDED_STATES,
    SHUTTING_DOWN,
    Instances,
    InstanceView,
)
from services.terminator.ports import Ports
from services.terminator.terminating_node import TerminatingNode
from services.terminator.termination_trace import TerminationTraces
from services.terminator.waiting.step import AGAIN, DONE, LONGEST_WAIT_SECONDS, Next, Wait
from services.terminator.writer import Writer
from shared.api.core.nodes import parse_node
from shared.api.core.references import to_machine
from shared.cloud.ec2.ended_instances import (
    TERMINATED_REASON,
    ended_by_itself,
    termination_message,
    would_end_again,
)
from shared.cloud.ec2.records import Instance
from shared.domain import labels as keys
from shared.domain.machines.machine import REGISTERED, Machine
from shared.domain.nodes import Node, provider_instance_id, provider_zone
from shared.domain.records import MACHINES as MACHINES_KIND
from shared.domain.records import NODES as NODES_KIND
from shared.errors import DovetailError
from shared.kube.machines import Machines
from shared.kube.reading import or_none
from shared.kube.recorder import Recorder
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.pools.pool_health import PoolHealth

log = get_logger(__name__)

LIFELESS = ENDED_STATES | {ABSENT}


@dataclass
class Progress:
    """What is kept of one termination between its steps; all of it may be lost."""

    instance_id: str
    node: Node | None
    ordered: float | None = None
    """When the instance was first ordered to terminate, monotonic."""
    held: bool = False
    """Its zone is shifted away from, and that was logged."""
    doubted: bool = False
    """EC2 does not know the instance although its node is Ready, and that was logged."""
    explained: bool = False
    """The instance ended by itself before its node joined, and that was reported."""


@dataclass
class Termination:
    """Takes away Machines, and nodes with our finalizer."""

    ports: Ports
    machines: Machines
    lists: BatchedLists
    instances: Instances
    shifted: ShiftedZones
    drains: DrainController
    writer: Writer
    failures: EarlyFailures
    traces: TerminationTraces
    _progress: dict[str, Progress] = field(default_factory=dict)
    """By machine key, or ``Node/name`` without a machine."""

    async def step_machine(self, key: str) -> Next:
        """The next step for a Machine, by its key."""
        machine = await or_none(self.machines.get(key))
        if machine is None:
            return self._forget(key)
        if not machine.terminating:
            return DONE
        if not machine.provider_id:
            return await self._end_unlaunched(machine)
        node = await self._node(machine)
        machine = await self.writer.deadline(machine, node)
        # A node without our finalizer would vanish at once, before its pods could be drained.
        if node is not None and keys.FINALIZER in node.finalizers and not node.terminating:
            await self.writer.delete_node(node)
        return await self._end(key, machine.provider_id, node, machine)

    async def step_node(self, name: str) -> Next:
        """The next step for a deleted node without a Machine (TRM-17)."""
        raw = await or_none(self.ports.kube.get(NODES, name))
        if raw is None:
            return self._forget(f"Node/{name}")
        node = parse_node(raw)
        if not node.terminating or not node.waits_for_us:
            return DONE
        return await self._end(f"Node/{name}", node.provider_id, node, None)

    async def machine_of(self, name: str) -> str:
        """Delete the Machine of a deleted node, too (TRM-02). Returns its key; empty: there is none."""
        raw = await or_none(self.ports.kube.get(NODES, name))
        if raw is None:
            return ""
        node = parse_node(raw)
        if not node.terminating or not node.waits_for_us or not node.provider_id:
            return ""
        for machine in await self.lists.machines():
            if machine.provider_id == node.provider_id:
                if not machine.terminating:
                    await self.machines.delete(machine)
                return machine.key
        return ""

    async def _end_unlaunched(self, machine: Machine) -> Next:
        """Without an instance only the finalizer is left, unless an open LaunchRecord may still bring one."""
        for raw in await self.lists.launch_records():
            subjects = (raw.get("spec") or {}).get("machines") or ()
            if any(subject.get("uid") == machine.uid for subject in subjects):
                return AGAIN
        # Read after the records: a launch that ended well in between has written its provider id by now.
        stored = await or_none(self.machines.get(machine.key))
        if stored is not None and stored.provider_id:
            return AGAIN
        if stored is not None:
            await self.writer.release_machine(stored)
        return DONE

    async def _node(self, machine: Machine) -> Node | None:
        """The node by its provider id: another Machine's node may have the name by now (F24)."""
        node = await self._node_named(machine.node_name, machine.provider_id)
        if node is not None:
            return node
        listed = await self.lists.nodes()
        names = (one.name for one in listed if one.provider_id == machine.provider_id)
        return await self._node_named(next(names, ""), machine.provider_id)

    async def _node_named(self, name: str, provider_id: str) -> Node | None:
        """None when no node has this name, or one of another instance has it."""
        raw = await or_none(self.ports.kube.get(NODES, name)) if name else None
        node = parse_node(raw) if raw is not None else None
        return node if node is not None and node.provider_id == provider_id else None

    async def _end(
        self, key: str, provider_id: str, node: Node | None, machine: Machine | None
    ) -> Next:
        """Drain the node, end the instance, then release the objects (TRM-02)."""
        instance_id = provider_instance_id(provider_id)
        progress = self._progress.setdefault(key, Progress(instance_id, node))
        progress.node = node or progress.node
        # A provider id that is not EC2's never had an instance.
        if instance_id and provider_zone(provider_id) in await self.shifted.current():
            return await self._wait_for_zone(progress, node, machine)
        progress.held = False
        if instance_id and (left := await self._end_instance(progress, node, machine)) is not DONE:
            return left
        # The node first: while the Machine is there, a crash leaves something that finds the node.
        if node is not None:
            await self.writer.release_node(node)
        if machine is not None:
            self._measure(machine, progress)
            await self.writer.release_machine(machine)
            self.traces.ended(machine)
        return self._forget(key)

    async def _end_instance(
        self, progress: Progress, node: Node | None, machine: Machine | None
    ) -> Next:
        """DONE when the instance is gone for good."""
        view = await self.instances.read(progress.instance_id)
        if machine is not None and not progress.explained:
            progress.explained = await self.failures.report(machine, view.instance)
        unlikely = view.state == ABSENT and node is not None and node.ready
        if view.is_gone and not unlikely:
            return DONE
        if view.state == SHUTTING_DOWN:
            if machine is not None:
                await self.writer.instance_terminating(machine, view.stopped_at)
            return self._until_read(progress, node, machine)
        if node is not None and not await self._is_drained(TerminatingNode(node, machine), view):
            return self.drains.wait(TerminatingNode(node, machine))
        if view.state != ABSENT:
            await self._order_end(progress, node, machine)
        elif view.is_gone:
            # Region or account must be wrong (F23). To release the objects now would leak the instance.
            if not progress.doubted:
                log.error("termination held back: EC2 does not know it", id=progress.instance_id)
            progress.doubted = True
            await self.writer.unlikely_absence(node, machine, progress.instance_id)
        return self._until_read(progress, node, machine)

    def _until_read(self, progress: Progress, node: Node | None, machine: Machine | None) -> Wait:
        """Until EC2 is asked again about the instance, which is at once after an order."""
        objects = [(NODES_KIND, node.name)] if node else []
        objects += [(MACHINES_KIND, machine.key)] if machine else []
        return Wait(self.instances.due(progress.instance_id), objects=frozenset(objects))

    async def _wait_for_zone(
        self, progress: Progress, node: Node | None, machine: Machine | None
    ) -> Next:
        """Wait until the zonal shift ends (GAT-03): EC2 gets no call about this zone, but pods are drained."""
        if not progress.held:
            log.info("termination waits for the end of a zonal shift", id=progress.instance_id)
        progress.held = True
        if node is not None:
            view = self.instances.last_seen(progress.instance_id)
            if not await self._is_drained(TerminatingNode(node, machine), view):
                return self.drains.wait(TerminatingNode(node, machine))
        return Wait(self.ports.clock.monotonic() + LONGEST_WAIT_SECONDS)

    async def _is_drained(self, target: TerminatingNode, view: InstanceView) -> bool:
        """Pods of a dead node cannot be stopped, and a node that never joined has none (TRM-03)."""
        if not target.is_registered:
            return True
        if not target.node.ready and view.state in LIFELESS:
            return True
        return await self.drains.is_drained(target)

    async def _order_end(
        self, progress: Progress, node: Node | None, machine: Machine | None
    ) -> None:
        """Order the end of the instance (TRM-14); repeated until EC2 shows that the order arrived."""
        name = machine.name if machine is not None else ""
        log.info("terminating instance", id=progress.instance_id, machine=name)
        try:
            await self.instances.terminate(progress.instance_id)
        except DovetailError as error:
            await self.writer.termination_failed(node, machine, error)
            raise
        if progress.ordered is None:
            progress.ordered = self.ports.clock.monotonic()
        if machine is not None:
            seen = self.instances.last_seen(progress.instance_id)
            await self.writer.instance_terminating(machine, seen.stopped_at)

    def _measure(self, machine: Machine, progress: Progress) -> None:
        if progress.ordered is not None:
            seconds = self.ports.clock.monotonic() - progress.ordered
            self.ports.metrics.instance_termination_seconds.labels(machine.pool).observe(seconds)

    def _forget(self, key: str) -> Next:
        """Forget the termination, which is done; also when somebody else removed the object."""
        self.traces.forget(key)
        progress = self._progress.pop(key, None)
        if progress is not None:
            self.instances.forget(progress.instance_id)
            if progress.node is not None:
                self.drains.forget(progress.node)
        return DONE


@dataclass(frozen=True)
class EarlyFailures:
    """Reports why a Machine never became a node."""

    recorder: Recorder
    health: PoolHealth

    async def report(self, machine: Machine, instance: Instance | None) -> bool:
        """True when the instance ended by itself and that was reported."""
        if machine.has(REGISTERED) or instance is None or not ended_by_itself(instance):
            return False
        text = termination_message(instance)
        await self.recorder.publish(to_machine(machine), "Warning", TERMINATED_REASON, text)
        if would_end_again(instance):
            await self.health.failed(machine)
        return True
