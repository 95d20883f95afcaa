"""Carries a Machine from launched to registered to initialised, and deletes one whose time is up (LCH-70..77).

Steps are taken in the order of LCH-70: an existing node is registered before anybody asks what time it is, so that a
launcher which was away for an hour deletes no good machine. A crash between two writes is mended by the next review:
every write says what should be, not what to add.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from services.launcher.lifecycle.nodes import cluster_nodes
from services.launcher.lifecycle.stages import by_provider_id, is_joining, is_open, node_of
from services.launcher.lifecycle.steps import LifecycleSteps
from services.launcher.machine_writer import MachineWriter
from shared.api.core.nodes import parse_node
from shared.concurrency.confirmation import Confirmation
from shared.domain.machines.machine import LAUNCHED, REGISTERED, Machine
from shared.domain.nodes import Node, provider_instance_id
from shared.errors import DovetailError, InvalidObject
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.reading import or_none
from shared.kube.resources import NODES
from shared.log import get_logger

log = get_logger(__name__)

SEEN_JOINING_SECONDS = 120.0
"""Nearly every node joins within this time, so a launcher with a wrong clock ends few of them. A shorter timeout is
what its operator wants."""


@dataclass
class Known:
    """Machines and node names by provider id, as last listed: a guess that spares most lists."""

    machines: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    listings: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class LifecycleController:
    """Reads Machines and their nodes from the API server and takes the steps that are due."""

    kube: Kube
    machines: Machines
    writer: MachineWriter
    steps: LifecycleSteps
    _known: Known = field(default_factory=Known)
    _joining: Confirmation = field(default_factory=Confirmation)
    _seen_joining: frozenset[str] = frozenset()
    """UIDs of machines whose node was missing in every review for ``SEEN_JOINING_SECONDS``, or a shorter timeout."""

    async def node_changed(self, name: str) -> None:
        """A node came or changed: find its Machine and take the next step."""
        raw = await or_none(self.kube.get(NODES, name))
        try:
            node = parse_node(raw) if raw is not None else None
        except InvalidObject as error:
            log.warning("unreadable node", node=name, error=error.message)
            return
        if node is None or node.terminating or not provider_instance_id(node.provider_id):
            return
        machine = await self._machine_of(node.provider_id)
        if machine is None or not is_open(machine):
            return
        names = self._known.nodes.setdefault(node.provider_id, set())
        names.add(name)
        if len(names) > 1:
            # Two names for one instance: only a complete list of nodes tells which of them exist (LCH-73).
            await self._step(machine, by_provider_id((await cluster_nodes(self.kube)).readable))
        else:
            await self._advance(machine, node)

    async def _machine_of(self, provider_id: str) -> Machine | None:
        """Hundreds of nodes that join together must not cause as many lists: callers that wait share the next one."""
        ticket = self._known.listings
        launched = self.writer.take_launch(provider_id)
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
        machine = await or_none(self.machines.get(key))
        if machine is None or machine.provider_id != provider_id:
            self._known.machines.pop(provider_id, None)
            return None
        return machine

    def _remember(self, machines: list[Machine]) -> None:
        self._known.machines = {m.provider_id: m.key for m in machines if m.provider_id}

    async def review(self, machines: list[Machine], nodes: list[Node]) -> int:
        """Review every Machine, as the clock demands. Returns for how many there was something to do."""
        found = by_provider_id(nodes)
        self._remember(machines)
        now = self.steps.ports.clock.monotonic()
        joining = (machine.uid for machine in machines if is_joining(machine))
        grace = min(SEEN_JOINING_SECONDS, self.steps.ports.settings.registration_timeout)
        confirmed = self._joining.confirmed(joining, now=now, grace=grace)
        self._seen_joining = frozenset(confirmed)
        self._known.nodes = {
            provider_id: {node.name for node in found.get(provider_id, ())}
            for provider_id in self._known.machines
        }
        work = 0
        for machine in machines:
            if not is_open(machine):
                continue
            try:
                work += await self._step(machine, found)
            except DovetailError as error:
                log.warning("cannot advance machine", machine=machine.name, error=error.message)
        return work

    async def _step(self, machine: Machine, nodes: dict[str, list[Node]]) -> bool:
        """Registration, initialisation, liveness, in this order (LCH-70). True when something was done."""
        node, missing = node_of(machine, nodes)
        if node is not None and not node.terminating and await self._advance(machine, node):
            return True
        if await self.steps.expire(machine, seen_joining=machine.uid in self._seen_joining):
            return True
        if node is None and machine.provider_id and not machine.has(REGISTERED):
            await self.steps.say_missing(machine, missing)
        return False

    async def _advance(self, machine: Machine, node: Node) -> bool:
        """One step, or two when both are due. True when something was written."""
        if not machine.has(LAUNCHED):
            return False
        registered = machine.has(REGISTERED)
        if not registered and not await self.steps.register(machine, node):
            return False
        return await self.steps.initialize(machine, node, registered_before=registered)
