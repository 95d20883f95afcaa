"""Carries a Machine from launched to registered to initialised, and ends one whose time is up (LCH-70..77)."""

from __future__ import annotations

from dataclasses import dataclass

from services.launcher.lifecycle import (
    is_settled,
    node_of,
    registered_labels,
    registered_taints,
    timed_out,
    waits_for,
)
from services.launcher.writing import Writer
from shared import streams
from shared.api.nodes import parse_node, taint_objects
from shared.api.references import to_machine
from shared.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.messages import MachineInitialized, MachineRegistered
from shared.metrics import Metrics
from shared.settings import LauncherSettings

log = get_logger(__name__)


@dataclass
class Registration:
    """Looks at Machines and their nodes on the API server and writes what is due."""

    kube: Kube
    machines: Machines
    clock: Clock
    settings: LauncherSettings
    metrics: Metrics
    writer: Writer

    async def node_changed(self, name: str) -> None:
        """A node came or changed: which Machine is it, and what is next for it?"""
        try:
            raw = await self.kube.get(NODES, name)
        except NotFound:
            return
        node = parse_node(raw)
        if node.terminating or not provider_instance_id(node.provider_id):
            return
        for machine in await self.machines.list():
            if machine.provider_id == node.provider_id:
                await self._advance(machine, node)

    async def review(self, machines: list[Machine], nodes: list[Node]) -> int:
        """The timed look at every Machine. Returns for how many there was something to do."""
        work = 0
        for machine in machines:
            if machine.terminating or is_settled(machine):
                continue
            reason = timed_out(
                machine,
                now=self.clock.now(),
                launch_seconds=self.settings.launch_timeout,
                registration_seconds=self.settings.registration_timeout,
            )
            if reason:
                await self._expire(machine, reason)
                continue
            node, missing = node_of(machine, nodes)
            if node is not None:
                work += await self._advance(machine, node)
            elif machine.provider_id:
                condition = Condition("Unknown", missing, "waiting for the node", self.clock.now())
                await self.writer.condition(machine, REGISTERED, condition)
        return work

    async def _advance(self, machine: Machine, node: Node) -> bool:
        """One step, or two when both are due. True when something was written."""
        if machine.terminating or not machine.has(LAUNCHED):
            return False
        registered = machine.has(REGISTERED)
        if not registered and not await self._register(machine, node):
            return False
        if registered and is_settled(machine):
            return False
        reason, message = waits_for(machine, node)
        if reason:
            if registered:
                condition = Condition("Unknown", reason, message, self.clock.now())
                await self.writer.condition(machine, INITIALIZED, condition)
            return not registered
        await self._initialize(machine.key, node)
        return True

    async def _register(self, machine: Machine, node: Node) -> bool:
        """LCH-73. Labels, taints, finalizer and owner in one compare-and-set write."""
        raw = await self.kube.get(NODES, node.name)
        fresh = parse_node(raw)
        if _has_no_boot_taint(fresh):
            await self.writer.event(
                machine, "Warning", "UnregisteredTaintMissing",
                f"node {node.name} started without the taint {keys.UNREGISTERED_TAINT_KEY}",
            )  # fmt: skip
        body = {
            "metadata": {
                "resourceVersion": raw["metadata"]["resourceVersion"],
                "labels": registered_labels(machine),
                "annotations": {keys.MANAGED_BY: self.settings.cluster_name},
                "finalizers": sorted({*fresh.finalizers, keys.FINALIZER}),
                "ownerReferences": [_owner(machine)],
            },
            "spec": {"taints": taint_objects(registered_taints(machine, fresh))},
        }
        try:
            await self.kube.patch(NODES, node.name, body)
        except (Conflict, NotFound) as error:
            log.info("node changed while it was registered", node=node.name, error=error.message)
            return False
        # nodeName goes with the condition: the scheduler finds the node of a Machine by it.
        condition = Condition("True", REGISTERED, "", self.clock.now())
        await self.writer.condition(machine, REGISTERED, condition, {"nodeName": node.name})
        log.info("registered machine", machine=machine.name, node=node.name)
        await self.writer.tell(
            streams.MACHINES, MachineRegistered(machine=machine.key), machine.uid
        )
        return True

    async def _initialize(self, key: str, node: Node) -> None:
        """LCH-75. The node's label first: the condition promises it."""
        try:
            body = {"metadata": {"uid": node.uid, "labels": {keys.INITIALIZED: "true"}}}
            await self.kube.patch(NODES, node.name, body)
            machine = await self.machines.get(key)
        except (NotFound, Conflict):
            return
        await self.writer.condition(
            machine, INITIALIZED, Condition("True", INITIALIZED, "", self.clock.now())
        )
        log.info("initialized machine", machine=machine.name, node=node.name)
        await self.writer.tell(streams.MACHINES, MachineInitialized(machine=key), machine.uid)

    async def _expire(self, machine: Machine, reason: str) -> None:
        log.warning("terminating due to timeout", machine=machine.name, reason=reason)
        self.metrics.machines_disrupted.labels(reason, machine.pool, machine.capacity_type).inc()
        await self.writer.event(
            machine, "Warning", "FailedRegistration",
            f"deleted because of {reason.replace('_', ' ')}; look at the instance's console output",
        )  # fmt: skip
        await self.writer.delete(machine, reason)


def _has_no_boot_taint(node: Node) -> bool:
    return node.labels.get(keys.REGISTERED) != "true" and not any(
        taint.key == keys.UNREGISTERED_TAINT_KEY for taint in node.taints
    )


def _owner(machine: Machine) -> dict[str, object]:
    return {**to_machine(machine), "blockOwnerDeletion": True}
