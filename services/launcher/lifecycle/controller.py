"""Carries a Machine from launched to registered to initialised, and ends one whose time is up (LCH-70..77).

Steps are taken in the order of LCH-70: a node that is there is registered before anybody asks what time it is, so that
a launcher which was away for an hour deletes no good machine. A crash between two writes is mended by the next look:
every write says what should be, not what to add.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Protocol

from services.launcher.lifecycle.nodes import cluster_nodes
from services.launcher.lifecycle.stages import (
    REGISTRATION_TIMEOUT,
    by_provider_id,
    is_settled,
    lacks_boot_taint,
    node_of,
    registered_annotations,
    registered_labels,
    registered_taints,
    timed_out,
    waits_for,
    worded,
)
from services.launcher.machine_writer import MachineWriter
from shared.api.nodes import parse_node, taint_objects
from shared.api.references import to_machine
from shared.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodepools import V1
from shared.domain.nodes import Node, provider_instance_id
from shared.errors import Conflict, DovetailError, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.metrics import Metrics
from shared.mirror.pool_health import PoolHealth
from shared.settings import LauncherSettings

log = get_logger(__name__)


class Learner(Protocol):
    """Who wants to know what a machine of some type really has (IT-12)."""

    async def learn(self, machine: Machine, node: Node) -> None:
        """Called once per machine, when its node is initialised."""
        ...


@dataclass
class Known:
    """Machines and node names by provider id, as last listed: a guess that spares most lists."""

    machines: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    listings: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class Registration:
    """Looks at Machines and their nodes on the API server and writes what is due."""

    kube: Kube
    machines: Machines
    clock: Clock
    settings: LauncherSettings
    metrics: Metrics
    writer: MachineWriter
    health: PoolHealth
    learner: Learner | None = None
    _known: Known = field(default_factory=Known)

    async def node_changed(self, name: str) -> None:
        """A node came or changed: which Machine is it, and what is next for it?"""
        try:
            node = parse_node(await self.kube.get(NODES, name))
        except NotFound:
            return
        except InvalidObject as error:
            log.warning("unreadable node", node=name, error=error.message)
            return
        if node.terminating or not provider_instance_id(node.provider_id):
            return
        machine = await self._machine_of(node.provider_id)
        if machine is None or machine.terminating or is_settled(machine):
            return
        names = self._known.nodes.setdefault(node.provider_id, set())
        names.add(name)
        if len(names) > 1:
            await self._look(machine, by_provider_id((await cluster_nodes(self.kube)).readable))
        else:
            await self._advance(machine, node)

    async def _machine_of(self, provider_id: str) -> Machine | None:
        """Hundreds of nodes that join together must not cause as many lists: who waits shares the next one."""
        ticket = self._known.listings
        launched = self.writer.launches.pop(provider_id, None)
        if launched is not None:
            self._known.machines[provider_id] = launched
        if provider_id not in self._known.machines:
            async with self._known.lock:
                if self._known.listings == ticket:
                    self._known.listings += 1
                    self._remember(list(await self.machines.list()))
        key = self._known.machines.get(provider_id)
        if key is None:
            return None
        try:
            machine = await self.machines.get(key)
        except NotFound:
            machine = None
        if machine is None or machine.provider_id != provider_id:
            self._known.machines.pop(provider_id, None)
            return None
        return machine

    def _remember(self, machines: list[Machine]) -> None:
        self._known.machines = {m.provider_id: m.key for m in machines if m.provider_id}

    async def review(self, machines: list[Machine], nodes: list[Node]) -> int:
        """The timed look at every Machine. Returns for how many there was something to do."""
        found = by_provider_id(nodes)
        self._remember(machines)
        self._known.nodes = {
            provider_id: {node.name for node in found.get(provider_id, ())}
            for provider_id in self._known.machines
        }
        work = 0
        for machine in machines:
            if machine.terminating or is_settled(machine):
                continue
            try:
                work += await self._look(machine, found)
            except DovetailError as error:
                log.warning("cannot advance machine", machine=machine.name, error=error.message)
        return work

    async def _look(self, machine: Machine, nodes: dict[str, list[Node]]) -> bool:
        """Registration, initialisation, liveness (LCH-70). True when something was done."""
        node, missing = node_of(machine, nodes)
        if node is not None and not node.terminating and await self._advance(machine, node):
            return True
        reason = timed_out(
            machine,
            now=self.clock.now(),
            launch_seconds=self.settings.launch_timeout,
            registration_seconds=self.settings.registration_timeout,
        )
        if reason:
            await self._expire(machine, reason)
        elif node is None and machine.provider_id and not machine.has(REGISTERED):
            await self._say_missing(machine, missing)
        return bool(reason)

    async def _say_missing(self, machine: Machine, reason: str) -> None:
        """Once: a thousand machines that wait for their nodes are looked at again and again."""
        known = machine.conditions.get(REGISTERED)
        if known is None or (known.status, known.reason) != ("Unknown", reason):
            condition = Condition("Unknown", reason, "waiting for the node", self.clock.now())
            await self.writer.condition(machine, REGISTERED, condition)

    async def _advance(self, machine: Machine, node: Node) -> bool:
        """One step, or two when both are due. True when something was written."""
        if not machine.has(LAUNCHED):
            return False
        registered = machine.has(REGISTERED)
        if not registered and not await self._register(machine, node):
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
        """LCH-73. The node first: the condition promises what is on it."""
        raw = await self.kube.get(NODES, node.name)
        fresh = parse_node(raw)
        if fresh.provider_id != machine.provider_id or fresh.terminating:
            return False  # the name is another machine's by now (F24)
        if lacks_boot_taint(fresh):
            await self.writer.event(
                machine, "Warning", "UnregisteredTaintMissing",
                f"node {node.name} started without the taint {keys.UNREGISTERED_TAINT_KEY}",
            )  # fmt: skip
        try:
            await self.kube.patch(NODES, node.name, self._registered(machine, raw, fresh))
        except (Conflict, NotFound) as error:
            log.info("node changed while it was registered", node=node.name, error=error.message)
            return False
        # nodeName goes with the condition: the scheduler finds the node of a Machine by it.
        condition = Condition("True", REGISTERED, "", self.clock.now())
        await self.writer.condition(machine, REGISTERED, condition, {"nodeName": node.name})
        log.info(worded(machine, "registered nodeclaim"), machine=machine.name, node=node.name)
        self.metrics.count_registered(machine)
        self.metrics.count_event(machine, "registered")
        await self.health.registered(machine)
        return True

    def _registered(
        self, machine: Machine, raw: dict[str, object], fresh: Node
    ) -> dict[str, object]:
        """Labels, annotations, taints, finalizer and owner in one compare-and-set write."""
        metadata: dict[str, object] = raw["metadata"]  # type: ignore[assignment]
        owners: list[dict[str, object]] = metadata.get("ownerReferences") or []  # type: ignore[assignment]
        others = [owner for owner in owners if owner.get("uid") != machine.uid]
        return {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "labels": registered_labels(machine),
                "annotations": registered_annotations(machine, self.settings.cluster_name),
                "finalizers": sorted({*fresh.finalizers, keys.FINALIZER}),
                "ownerReferences": [*others, _owner(machine)],
            },
            "spec": {"taints": taint_objects(registered_taints(machine, fresh))},
        }

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
        self.metrics.count_event(machine, "initialized")
        log.info(worded(machine, "initialized nodeclaim"), machine=machine.name, node=node.name)
        await self._learn(machine, node)

    async def _learn(self, machine: Machine, node: Node) -> None:
        if self.learner is None:
            return
        try:
            await self.learner.learn(machine, node)
        except DovetailError as error:
            log.warning("nothing learnt from node", node=node.name, error=error.message)

    async def _expire(self, machine: Machine, reason: str) -> None:
        """LCH-76. It counts only after the deletion was ordered, so that it counts once."""
        late = reason == REGISTRATION_TIMEOUT
        seconds = self.settings.registration_timeout if late else self.settings.launch_timeout
        old = machine.generation_api != V1 and late
        text = "terminating due to registration ttl" if old else "terminating due to timeout"
        log.debug(text, machine=machine.name, timeout=seconds, reason=reason)
        if not await self.writer.delete(machine, reason):
            return
        self.metrics.count_disrupted(machine, reason)
        await self.writer.event(
            machine, "Warning", "FailedRegistration" if late else "FailedLaunch",
            f"deleted: no node registered within {seconds:.0f} s; look at the instance's console output"
            if late
            else f"deleted: no instance within {seconds:.0f} s; see the condition Launched",
        )  # fmt: skip
        if late:
            await self.health.failed(machine)


def _owner(machine: Machine) -> dict[str, object]:
    return {**to_machine(machine), "blockOwnerDeletion": True}
