"""Replaces nodes that stay ill: sets their machine's end to now and deletes it (TRM-20..22, gate NodeRepair).

The rest is the usual termination, which then waits for nothing; the scheduler buys what the pods need. What may go
wrong: the order is given and the process dies before it counts it. Then a metric is one short.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from services.terminator.repair.conditions import (
    Illness,
    Patient,
    due,
    illness_of,
    is_epidemic,
    wards,
)
from shared.api.nodes import parse_node
from shared.api.references import to_machine, to_node
from shared.clock import Clock, rfc3339
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodes import Node
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.metrics import Metrics

log = get_logger(__name__)

LOOK_SECONDS = 60.0
RETRY_SECONDS = 300.0
"""TRM-21: how long a pool with too many ill nodes is left alone."""
BLOCKED_SECONDS = 900.0
"""TRM-21: how often that is said."""


@dataclass
class NodeRepair:
    """``enabled``: the gate, asked at each look because it may change. ``add``: begins a termination at once."""

    kube: Kube
    machines: Machines
    clock: Clock
    recorder: Recorder
    metrics: Metrics
    enabled: Callable[[], bool]
    add: Callable[[str, str], None]
    _retry_at: dict[str, float] = field(default_factory=dict)
    """Pool key -> when it is looked at again (monotonic)."""

    async def look(self) -> None:
        """Read all nodes and repair what is due."""
        if not self.enabled():
            self._retry_at.clear()
            return
        groups = wards(await self._patients())
        now = self.clock.monotonic()
        self._retry_at = {key: at for key, at in self._retry_at.items() if now < at}
        waiting = {key: due(group, now=self.clock.now()) for key, group in groups.items()}
        waiting[""] = [patient for patient in waiting[""] if not patient.node.pool_key]
        if any(ill for key, ill in waiting.items() if key not in self._retry_at):
            machines = {one.provider_id: one for one in await self.machines.list()}
            machines.pop("", None)
            for key, ill in waiting.items():
                if ill and key not in self._retry_at:
                    await self._treat(key, groups[key], ill, machines)

    async def _patients(self) -> list[Patient]:
        listed = await self.kube.read_all(NODES, _patient)
        return [one for one in listed if one is not None]

    async def _treat(
        self, key: str, group: list[Patient], ill: list[Patient], machines: dict[str, Machine]
    ) -> None:
        owned = [
            (one, machines[one.node.provider_id]) for one in ill if one.node.provider_id in machines
        ]
        going = [(one, machine) for one, machine in owned if not machine.terminating]
        if going and is_epidemic(group):
            self._retry_at[key] = self.clock.monotonic() + RETRY_SECONDS
            for patient, machine in going:
                await self._tell_blocked(key, patient.node, machine)
            return
        for patient, machine in going:
            if patient.illness is not None:
                await self._repair(patient.node, patient.illness, machine)

    async def _repair(self, node: Node, illness: Illness, machine: Machine) -> None:
        """TRM-22. An earlier end that somebody set stays."""
        now = self.clock.now()
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
            condition=illness.condition,
            status=illness.status,
        )
        self.metrics.unhealthy_disrupted.labels(
            snake_case(illness.condition), machine.pool, machine.capacity_type, machine.image_id
        ).inc()
        self.metrics.count_disrupted(machine, "unhealthy")
        self.add(machine.kind, machine.name)

    async def _tell_blocked(self, key: str, node: Node, machine: Machine) -> None:
        place = f"of {key}" if key else "in the cluster"
        text = f"more than 20% of the nodes {place} are unhealthy: none of them is repaired"
        for involved in (to_node(node), to_machine(machine)):
            await self.recorder.publish(
                involved, "Warning", "NodeRepairBlocked", text, dedupe_seconds=BLOCKED_SECONDS
            )


def snake_case(name: str) -> str:
    """``StorageReady`` -> ``storage_ready``: how metrics name conditions."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _patient(raw: Mapping[str, Any]) -> Patient | None:
    """None for a node that cannot be read."""
    try:
        return Patient(parse_node(raw), illness_of(raw))
    except InvalidObject as error:
        log.warning("unreadable node", node=raw["metadata"]["name"], error=str(error))
        return None
