"""Replaces nodes that stay unhealthy: sets their Machine's end to now and deletes it (TRM-20..22, gate NodeRepair).

The rest is the usual termination, which then waits for nothing; the scheduler buys what the pods need. What may go
wrong: the process dies between the order and the count. Then a metric is one short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.terminator.ports import Ports
from services.terminator.repair.conditions import (
    NodeHealth,
    Unhealthy,
    by_pool,
    due,
    is_kept,
    too_many_unhealthy,
    unhealthy_condition,
)
from shared.api.core.nodes import parse_node
from shared.api.core.references import to_machine, to_node
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger

log = get_logger(__name__)

PERIOD_SECONDS = 60.0
RETRY_SECONDS = 300.0
"""How long a pool with too many unhealthy nodes is left alone (TRM-21)."""
BLOCKED_SECONDS = 900.0
"""How often the event about that is repeated (TRM-21)."""


@dataclass
class NodeRepair:
    """``add`` begins a termination at once."""

    ports: Ports
    machines: Machines
    add: Callable[[str, str], None]
    _retry_at: dict[str, float] = field(default_factory=dict)
    """Pool key -> monotonic time from which it may be repaired again."""

    async def check(self) -> None:
        """Read all nodes and repair what is due."""
        # Read at each check, because the gate may change.
        if not self.ports.settings.feature_gates.node_repair:
            self._retry_at.clear()
            return
        groups = by_pool(await self._read_nodes())
        now = self.ports.clock.monotonic()
        self._retry_at = {key: at for key, at in self._retry_at.items() if now < at}
        waiting = {key: due(group, now=self.ports.clock.now()) for key, group in groups.items()}
        waiting[""] = [one for one in waiting[""] if not one.node.pool_key]
        if any(found for key, found in waiting.items() if key not in self._retry_at):
            machines = {one.provider_id: one for one in await self.machines.list()}
            machines.pop("", None)
            for key, found in waiting.items():
                if found and key not in self._retry_at:
                    await self._repair_pool(key, groups[key], found, machines)

    async def _read_nodes(self) -> list[NodeHealth]:
        listed = await self.ports.kube.read_all(NODES, _node_health)
        return [one for one in listed if one is not None]

    async def _repair_pool(
        self,
        key: str,
        group: list[NodeHealth],
        found: list[NodeHealth],
        machines: dict[str, Machine],
    ) -> None:
        owned = [
            (one, machines[one.node.provider_id])
            for one in found
            if one.node.provider_id in machines
        ]
        going = [(one, machine) for one, machine in owned if not machine.terminating]
        if going and too_many_unhealthy(group):
            self._retry_at[key] = self.ports.clock.monotonic() + RETRY_SECONDS
            place = f"of {key}" if key else "in the cluster"
            text = f"more than 20% of the nodes {place} are unhealthy: none of them is repaired"
            for one, machine in going:
                await self._report_blocked(one.node, machine, text)
            return
        for one, machine in going:
            if is_kept(one.node, machine):
                text = f"the annotation {keys.DO_NOT_REPAIR} keeps it from being repaired"
                await self._report_blocked(one.node, machine, text)
            elif one.unhealthy is not None:
                await self._repair(one.node, one.unhealthy, machine)

    async def _repair(self, node: Node, unhealthy: Unhealthy, machine: Machine) -> None:
        """Set the end and delete the Machine (TRM-22). An earlier end stays."""
        # The end goes first: a Machine that was only deleted would drain for as long as its pods want.
        now = self.ports.clock.now()
        if machine.terminate_at is None or machine.terminate_at > now:
            note = {"annotations": {keys.TERMINATION_TIMESTAMP: rfc3339(now)}}
            try:
                await self.machines.patch(machine, note)
            except (NotFound, Conflict):
                return
        if not await self.machines.delete(machine):
            return
        log.info(
            "deleting unhealthy node",
            node=node.name,
            machine=machine.name,
            condition=unhealthy.condition,
            status=unhealthy.status,
        )
        self.ports.metrics.unhealthy_disrupted.labels(
            snake_case(unhealthy.condition), machine.pool, machine.capacity_type, machine.image_id
        ).inc()
        self.ports.metrics.count_disrupted(machine, "unhealthy")
        self.add(machine.kind, machine.name)

    async def _report_blocked(self, node: Node, machine: Machine, text: str) -> None:
        for involved in (to_node(node), to_machine(machine)):
            await self.ports.recorder.publish(
                involved, "Warning", "NodeRepairBlocked", text, dedupe_seconds=BLOCKED_SECONDS
            )


def snake_case(name: str) -> str:
    """``StorageReady`` -> ``storage_ready``: how metrics name conditions."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _node_health(raw: Mapping[str, Any]) -> NodeHealth | None:
    """None for a node that cannot be read."""
    try:
        return NodeHealth(parse_node(raw), unhealthy_condition(raw))
    except InvalidObject as error:
        log.warning("unreadable node", node=raw["metadata"]["name"], error=str(error))
        return None
