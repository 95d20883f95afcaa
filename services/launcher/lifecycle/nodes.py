"""All nodes of the cluster at one moment, and whether each has what its machine was promised (LCH-82).

Decisions are made by what exists and by what does not: a node that cannot be read (somebody's own kubelet) hides no
other; it still counts as existing.

The check reports only and never acts. A node with less than 90 % of a requested resource was planned with a wrong
picture of its type: pods that the plan put there stay pending for ever, and nobody would know why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.launcher.lifecycle.stages import by_provider_id, node_of
from services.launcher.machine_writer import MachineWriter
from services.launcher.ports import Ports
from shared.api.core.nodes import parse_node
from shared.domain.machines.machine import CONSISTENT, INITIALIZED, Condition, Machine
from shared.domain.nodes import Node
from shared.domain.resources import format_amount
from shared.errors import DovetailError, InvalidObject
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.log import get_logger

log = get_logger(__name__)

PERIOD_SECONDS = 600.0
LEAST_SHARE = 0.9
EVENT_SECONDS = 600.0


@dataclass(frozen=True)
class ClusterNodes:
    """``readable`` nodes, and the provider ids of all."""

    readable: list[Node]
    provider_ids: frozenset[str]


async def cluster_nodes(kube: Kube) -> ClusterNodes:
    """All nodes of the cluster. Raises TransientError: a list that breaks off says nothing."""
    listed = await kube.read_all(NODES, _read)
    provider_ids = {one.provider_id if isinstance(one, Node) else one for one in listed}
    readable = [one for one in listed if isinstance(one, Node)]
    return ClusterNodes(readable, frozenset(provider_ids - {""}))


def _read(raw: Mapping[str, Any]) -> Node | str:
    """The node; of one that cannot be read its provider id."""
    try:
        return parse_node(raw)
    except InvalidObject as error:
        log.warning("unreadable node", node=raw["metadata"]["name"], error=error.message)
        return str((raw.get("spec") or {}).get("providerID") or "")


def shortfalls(machine: Machine, node: Node) -> list[str]:
    """Pure: one sentence for each requested resource of which the node has less than 90 %."""
    found = []
    for resource, amount in sorted(machine.requests.items()):
        expected, actual = machine.capacity.get(resource, 0), node.capacity.get(resource, 0)
        if not amount or not expected or actual >= LEAST_SHARE * expected:
            continue
        found.append(
            f"expected {format_amount(resource, expected)} of resource {resource}, but found "
            f"{format_amount(resource, actual)} ({100 * actual / expected:.1f}% of expected)"
        )
    return found


@dataclass
class Consistency:
    """The timed check of all initialised machines."""

    ports: Ports
    machines: Machines
    writer: MachineWriter

    async def check_all(self) -> None:
        """One machine that cannot be written does not stop the others."""
        nodes = by_provider_id((await cluster_nodes(self.ports.kube)).readable)
        for machine in await self.machines.list():
            node, _ = node_of(machine, nodes)
            if node is None or machine.terminating or not machine.has(INITIALIZED):
                continue
            try:
                await self._check(machine, node)
            except DovetailError as error:
                log.warning("cannot say what was found", machine=machine.name, error=error.message)

    async def _check(self, machine: Machine, node: Node) -> None:
        found = shortfalls(machine, node)
        for text in found:
            log.error("failed consistency check", machine=machine.name, node=node.name, error=text)
            self.ports.metrics.consistency_errors.labels("node_shape").inc()
            await self.writer.event(
                machine, "Warning", "FailedConsistencyCheck", text, dedupe_seconds=EVENT_SECONDS
            )
        if not machine.api.detailed_status:
            return  # a v1alpha5 Machine has no such condition
        status, reason = ("False", "ConsistencyCheckFailed") if found else ("True", CONSISTENT)
        known = machine.conditions.get(CONSISTENT)
        condition = Condition(status, reason, "; ".join(found), self.ports.clock.now())
        if known is None or (known.status, known.message) != (condition.status, condition.message):
            await self.machines.write_condition(machine, CONSISTENT, condition)
