"""A registered node that is ready with all its resources is initialised: pods may use it (LCH-75)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from services.launcher.lifecycle.stages import waits_for
from services.launcher.machine_writer import MachineWriter
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, Condition, Machine
from shared.domain.nodes import Node
from shared.errors import Conflict, DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)


class Learner(Protocol):
    """Learns from a node what machines of its type really have (IT-12)."""

    async def learn(self, machine: Machine, node: Node) -> None:
        """Called once per machine, when its node is initialised."""
        ...


@dataclass
class Initialization:
    """Initialises nodes, and says on a Machine what its node still lacks."""

    kube: Kube
    machines: Machines
    clock: Clock
    metrics: Metrics
    writer: MachineWriter
    learner: Learner

    async def initialize(self, machine: Machine, node: Node, *, registered_before: bool) -> bool:
        """True when something was written. A Machine that was registered just now waits without a condition."""
        reason, message = waits_for(machine, node)
        if not reason:
            await self._initialize(machine.key, node)
            return True
        if registered_before:
            condition = Condition("Unknown", reason, message, self.clock.now())
            await self.writer.condition(machine, INITIALIZED, condition)
        return not registered_before

    async def _initialize(self, key: str, node: Node) -> None:
        # The node's label before the condition: the condition promises the label.
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
        log.info(machine.api.worded("initialized nodeclaim"), machine=machine.name, node=node.name)
        await self._learn(machine, node)

    async def _learn(self, machine: Machine, node: Node) -> None:
        try:
            await self.learner.learn(machine, node)
        except DovetailError as error:
            log.warning("nothing learnt from node", node=node.name, error=error.message)
