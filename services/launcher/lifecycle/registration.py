"""The node of a launched Machine gets labels, annotations, taints, finalizer and owner of its Machine (LCH-73)."""

from __future__ import annotations

from dataclasses import dataclass

from services.launcher.lifecycle.stages import (
    lacks_boot_taint,
    registered_annotations,
    registered_labels,
    registered_taints,
)
from services.launcher.machine_writer import MachineWriter
from shared.api.core.nodes import parse_node, taint_objects
from shared.api.core.references import to_machine
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import REGISTERED, Condition, Machine
from shared.domain.nodes import Node
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.mirror.pools.pool_health import PoolHealth
from shared.settings import LauncherSettings

log = get_logger(__name__)


@dataclass
class Registration:
    """Registers nodes, and says on a Machine that its node is missing."""

    kube: Kube
    clock: Clock
    settings: LauncherSettings
    metrics: Metrics
    writer: MachineWriter
    health: PoolHealth

    async def register(self, machine: Machine, node: Node) -> bool:
        """True when the Machine is registered now; False when its node changed meanwhile."""
        raw = await self.kube.get(NODES, node.name)
        fresh = parse_node(raw)
        if fresh.provider_id != machine.provider_id or fresh.terminating:
            return False  # the name is another machine's by now (F24)
        if lacks_boot_taint(fresh):
            await self.writer.event(
                machine, "Warning", "UnregisteredTaintMissing",
                f"node {node.name} started without the taint {keys.UNREGISTERED_TAINT_KEY}",
            )  # fmt: skip
        # The node before the condition: the condition promises what is on the node.
        try:
            await self.kube.patch(NODES, node.name, self._registered(machine, raw, fresh))
        except (Conflict, NotFound) as error:
            log.info("node changed while it was registered", node=node.name, error=error.message)
            return False
        # nodeName goes with the condition: the scheduler finds the node of a Machine by it.
        condition = Condition("True", REGISTERED, "", self.clock.now())
        await self.writer.condition(machine, REGISTERED, condition, {"nodeName": node.name})
        log.info(machine.api.worded("registered nodeclaim"), machine=machine.name, node=node.name)
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

    async def say_missing(self, machine: Machine, reason: str) -> None:
        """Write why there is no node, once: a thousand Machines that wait are reviewed again and again."""
        known = machine.conditions.get(REGISTERED)
        if known is None or (known.status, known.reason) != ("Unknown", reason):
            condition = Condition("Unknown", reason, "waiting for the node", self.clock.now())
            await self.writer.condition(machine, REGISTERED, condition)


def _owner(machine: Machine) -> dict[str, object]:
    return {**to_machine(machine), "blockOwnerDeletion": True}
