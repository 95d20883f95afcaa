"""The termination saga, one small step at a time (TRM-01..17).

Each step reads the Machine, its node and its instance afresh and does the next thing that is due: delete the node
object, clear the node, terminate the instance, wait until EC2 says it is terminated, take off the finalizers. A crash
between any two steps costs nothing: the next look goes on from what the objects say.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.terminator.batched_lists import Listings
from services.terminator.drain.controller import Clearing
from services.terminator.early_failures import Endings
from services.terminator.instances import ABSENT, SHUTTING_DOWN, TERMINATED, Instances, Sighting
from services.terminator.terminating_node import Departure
from services.terminator.writer import Writer
from shared.api.nodes import parse_node
from shared.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodes import Node, provider_instance_id, provider_zone
from shared.errors import DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.metrics import Metrics
from shared.mirror.shifted_zones import ShiftedZones

log = get_logger(__name__)

DONE, AGAIN = True, False
LIFELESS = frozenset({ABSENT, SHUTTING_DOWN, TERMINATED, "stopping", "stopped"})


@dataclass
class Memory:
    """What is remembered of one termination; all of it may be lost."""

    instance_id: str
    node: Node | None
    ordered: float | None = None
    """When the instance's end was ordered, monotonic."""
    held: bool = False
    """Its zone is shifted away from, and that was said."""
    doubted: bool = False
    """EC2 does not know the instance, and its node is Ready all the same: that was said."""
    explained: bool = False
    """The instance ended by itself before its node joined: that was said."""


@dataclass
class Termination:
    """Takes Machines and our nodes away."""

    kube: Kube
    machines: Machines
    clock: Clock
    metrics: Metrics
    listings: Listings
    instances: Instances
    shifted: ShiftedZones
    clearing: Clearing
    writer: Writer
    endings: Endings
    _memories: dict[str, Memory] = field(default_factory=dict)
    """By machine key, or ``Node/name`` without a machine."""

    async def step_machine(self, key: str) -> bool:
        """The next step for a machine. DONE when there is none left."""
        try:
            machine = await self.machines.get(key)
        except NotFound:
            return self._forget(key)
        if not machine.terminating:
            return DONE
        if not machine.provider_id:
            return await self._end_unlaunched(machine)
        node = await self._node(machine)
        machine = await self.writer.deadline(machine, node)
        # A node without our finalizer would vanish at once, and nobody could drain it.
        if node is not None and keys.FINALIZER in node.finalizers and not node.terminating:
            await self.writer.delete_node(node)
        return await self._end(key, machine.provider_id, node, machine)

    async def step_node(self, name: str) -> bool:
        """The next step for a deleted node that has no machine (TRM-17). DONE when there is none left."""
        try:
            node = parse_node(await self.kube.get(NODES, name))
        except NotFound:
            return self._forget(f"Node/{name}")
        if not node.terminating or keys.FINALIZER not in node.finalizers:
            return DONE
        return await self._end(f"Node/{name}", node.provider_id, node, None)

    async def machine_of(self, name: str) -> str:
        """Key of the machine behind a deleted node of ours: it goes too (TRM-02). Empty: there is none."""
        try:
            node = parse_node(await self.kube.get(NODES, name))
        except NotFound:
            return ""
        if not node.terminating or keys.FINALIZER not in node.finalizers or not node.provider_id:
            return ""
        for machine in await self.listings.machines():
            if machine.provider_id == node.provider_id:
                if not machine.terminating:
                    await self.writer.delete_machine(machine)
                return machine.key
        return ""

    async def _end_unlaunched(self, machine: Machine) -> bool:
        """No instance yet. An open LaunchRecord may still make one: the launcher ends that first.

        The machine is read once more after the records: the launch may have ended, and well, in between.
        """
        for raw in await self.listings.launch_records():
            subjects = (raw.get("spec") or {}).get("machines") or ()
            if any(subject.get("uid") == machine.uid for subject in subjects):
                return AGAIN
        try:
            machine = await self.machines.get(machine.key)
        except NotFound:
            return DONE
        if machine.provider_id:
            return AGAIN
        await self.writer.release_machine(machine)
        return DONE

    async def _node(self, machine: Machine) -> Node | None:
        """The node by provider id: a name may be another machine's by now (F24)."""
        node = await self._node_named(machine.node_name, machine.provider_id)
        if node is not None:
            return node
        listed = await self.listings.nodes()
        names = (one.name for one in listed if one.provider_id == machine.provider_id)
        return await self._node_named(next(names, ""), machine.provider_id)

    async def _node_named(self, name: str, provider_id: str) -> Node | None:
        """None when the name is nobody's, or somebody else's."""
        if not name:
            return None
        try:
            node = parse_node(await self.kube.get(NODES, name))
        except NotFound:
            return None
        return node if node.provider_id == provider_id else None

    async def _end(
        self, key: str, provider_id: str, node: Node | None, machine: Machine | None
    ) -> bool:
        """Clear the node, end the instance, and then the objects: the node's before the machine's (TRM-02)."""
        instance_id = provider_instance_id(provider_id)
        memory = self._memories.setdefault(key, Memory(instance_id, node))
        memory.node = node or memory.node
        # An id that is not EC2's never had an instance of ours behind it.
        if instance_id and provider_zone(provider_id) in await self.shifted.current():
            await self._wait_for_zone(memory, node, machine)
            return AGAIN
        memory.held = False
        if instance_id and not await self._end_instance(memory, node, machine):
            return AGAIN
        if node is not None:
            await self.writer.release_node(node)
        if machine is not None:
            self._measure(machine, memory)
            await self.writer.release_machine(machine)
        return self._forget(key)

    async def _end_instance(
        self, memory: Memory, node: Node | None, machine: Machine | None
    ) -> bool:
        """True when the instance is gone for good."""
        sighting = await self.instances.look(memory.instance_id)
        if machine is not None and not memory.explained:
            memory.explained = await self.endings.note(machine, sighting.instance)
        unlikely = sighting.state == ABSENT and node is not None and node.ready
        if sighting.is_gone and not unlikely:
            return True
        if sighting.state == SHUTTING_DOWN:
            if machine is not None:
                await self.writer.instance_terminating(machine)
            return False
        if node is not None and not await self._is_clear(Departure(node, machine), sighting):
            return False
        if sighting.state != ABSENT:
            await self._order_end(memory, node, machine)
        elif sighting.is_gone:
            # F23: we ask the wrong region, or the wrong account. To let go now would leak the instance.
            if not memory.doubted:
                log.error("termination held back: EC2 does not know it", id=memory.instance_id)
            memory.doubted = True
            await self.writer.unlikely_absence(node, machine, memory.instance_id)
        return False

    async def _wait_for_zone(
        self, memory: Memory, node: Node | None, machine: Machine | None
    ) -> None:
        """GAT-03: EC2 is neither asked nor told anything about a zone that the cluster is shifted away from. Pods leave
        the node all the same."""
        if not memory.held:
            log.info("termination waits for the end of a zonal shift", id=memory.instance_id)
        memory.held = True
        if node is not None:
            sighting = self.instances.last_seen(memory.instance_id)
            await self._is_clear(Departure(node, machine), sighting)

    async def _is_clear(self, departure: Departure, sighting: Sighting) -> bool:
        """TRM-03: nobody could stop the pods of a dead node, and on one that never joined there are none."""
        if not departure.is_registered:
            return True
        if not departure.node.ready and sighting.state in LIFELESS:
            return True
        return await self.clearing.is_clear(departure)

    async def _order_end(self, memory: Memory, node: Node | None, machine: Machine | None) -> None:
        """TRM-14. Repeated until EC2 shows that it heard."""
        name = machine.name if machine is not None else ""
        log.info("terminating instance", id=memory.instance_id, machine=name)
        try:
            await self.instances.terminate(memory.instance_id)
        except DovetailError as error:
            await self.writer.termination_failed(node, machine, error)
            raise
        if memory.ordered is None:
            memory.ordered = self.clock.monotonic()
        if machine is not None:
            await self.writer.instance_terminating(machine)

    def _measure(self, machine: Machine, memory: Memory) -> None:
        if memory.ordered is not None:
            seconds = self.clock.monotonic() - memory.ordered
            self.metrics.instance_termination_seconds.labels(machine.pool).observe(seconds)

    def _forget(self, key: str) -> bool:
        """Also when somebody else took the object away."""
        memory = self._memories.pop(key, None)
        if memory is not None:
            self.instances.forget(memory.instance_id)
            if memory.node is not None:
                self.clearing.forget(memory.node)
        return DONE
