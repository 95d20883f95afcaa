"""Which decision bought a machine, and what else could have been bought: for ``explain`` about nodes and pods."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from services.scheduler.state.cluster import ClusterState
from services.scheduler.state.decisions import DecisionLog
from shared.domain.machines.machine import Machine
from shared.simulation.alternatives import alternatives_of


@dataclass
class Purchases:
    """Looks up one machine at a time; changes nothing."""

    cluster: ClusterState
    decisions: DecisionLog

    def of_node(self, node: str) -> dict[str, Any] | None:
        """The purchase of the machine with this node; None for a node that is not ours."""
        machines = self.cluster.view.machines()
        found = next((one for one in machines if node and one.node_name == node), None)
        return None if found is None else self.of_machine(found)

    def of_machine(self, machine: Machine) -> dict[str, Any]:
        """``decision``: id of the plan or command, empty for a machine made by hand or for what its pool is to have.
        ``text`` and ``reason`` are empty for a decision that this scheduler does not remember."""
        id_ = machine.decision
        kept = next((one for one in self.decisions.documents() if id_ and one["id"] == id_), {})
        price = machine.noted_price
        return {
            "machine": machine.key,
            "nodePool": machine.pool_key,
            "instanceType": machine.instance_type,
            "zone": machine.zone,
            "capacityType": machine.capacity_type,
            "pricePerHour": None if price is None else price / 1e6,
            "at": machine.created_at,
            "decision": id_,
            "kind": kept.get("kind", ""),
            "text": kept.get("text", machine.bought_for),
            "reason": kept.get("reason", ""),
        }

    async def alternatives(self, machine: Machine) -> dict[str, Any] | None:
        """None while the catalogue or the cluster is not known."""
        snapshot = await self.cluster.snapshot()
        if snapshot is None:
            return None
        # In a thread: some thousand offerings are judged, and the loop must answer probes meanwhile.
        return await asyncio.to_thread(alternatives_of, machine, snapshot)
