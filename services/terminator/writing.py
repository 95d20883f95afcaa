"""What the terminator writes to nodes and Machines, and whom it tells."""

from __future__ import annotations

from dataclasses import dataclass

from shared import streams
from shared.api.references import to_node, to_pod
from shared.bus import Bus
from shared.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodes import Node
from shared.domain.pods import Pod
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, Resource
from shared.log import get_logger
from shared.messages import MachineTerminated, send
from shared.metrics import Metrics

log = get_logger(__name__)

RECORDS = {resource.kind: resource for resource in (MACHINES, NODE_CLAIMS)}


@dataclass
class Writer:
    """Every write names the UID it means."""

    kube: Kube
    machines: Machines
    bus: Bus
    clock: Clock
    recorder: Recorder
    metrics: Metrics

    async def cordon(self, node: Node) -> None:
        """TRM-04 [5]: no new pods, no traffic from load balancers."""
        body = {
            "metadata": {"uid": node.uid, "labels": {keys.EXCLUDE_FROM_BALANCERS: "karpenter"}},
            "spec": {"unschedulable": True},
        }
        try:
            await self.kube.patch(NODES, node.name, body)
        except (NotFound, Conflict):
            return
        log.info("cordoned node", node=node.name)

    async def delete_machine(self, machine: Machine) -> None:
        """The node was deleted: so is its Machine (TRM-02)."""
        await self.machines.delete(machine)

    async def release_node(self, node: Node) -> None:
        """Take our finalizer off the node: it disappears (TRM-15)."""
        if await self._release(NODES, node.name, node.uid):
            log.info("deleted node", node=node.name)

    async def release_machine(self, machine: Machine) -> None:
        """Take our finalizer off the Machine, count it, tell the scheduler."""
        resource = RECORDS[machine.kind]
        if not await self._release(resource, machine.name, machine.uid):
            return
        log.info("deleted machine", machine=machine.name, provider_id=machine.provider_id)
        self.metrics.machines_terminated.labels(
            machine.pool, machine.capacity_type, machine.zone
        ).inc()
        message = MachineTerminated(machine=machine.key)
        await send(self.bus, streams.MACHINES, message, cause=machine.uid, clock=self.clock)

    async def _release(self, resource: Resource, name: str, uid: str) -> bool:
        """Compare-and-set on the finalizer list. False when there was nothing to release."""
        try:
            raw = await self.kube.get(resource, name)
        except NotFound:
            return False
        meta = raw["metadata"]
        finalizers = meta.get("finalizers") or []
        if meta["uid"] != uid or keys.FINALIZER not in finalizers:
            return False
        left = [finalizer for finalizer in finalizers if finalizer != keys.FINALIZER]
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": left or None}
        }
        await self.kube.patch(resource, name, body)
        return True

    async def evicted(self, pod: Pod) -> None:
        """TRM-08: the pod's own event."""
        await self.recorder.publish(
            to_pod(pod), "Normal", "Evicted", "Evicted pod: node is going away"
        )

    async def blocked(self, node: Node, pod: Pod, why: str) -> None:
        """TRM-08: say on the node what holds its drain."""
        await self.recorder.publish(
            to_node(node),
            "Warning",
            "FailedDraining",
            f"Failed to drain node, pod {pod.key} stays: {why}",
            dedupe_seconds=300,
        )
