"""What the terminator writes to nodes and Machines, and whom it tells."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from shared import streams
from shared.api.references import to_machine, to_node, to_pod
from shared.bus import Bus
from shared.clock import Clock, rfc3339
from shared.domain import labels as keys
from shared.domain.machines import (
    DRAINED,
    INSTANCE_TERMINATING,
    VOLUMES_DETACHED,
    Condition,
    Machine,
)
from shared.domain.nodepools import V1
from shared.domain.nodes import Node
from shared.domain.pods import Pod
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.node_marks import NodeMarks, is_closed
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, Resource
from shared.log import get_logger
from shared.messages import MachineTerminated, send
from shared.metrics import Metrics

log = get_logger(__name__)

RECORDS = {resource.kind: resource for resource in (MACHINES, NODE_CLAIMS)}
EXCLUDED = {keys.EXCLUDE_FROM_BALANCERS: "karpenter"}
BLOCKED_SECONDS = 300.0
"""F22: how often a drain that waits says so."""


@dataclass
class Writer:
    """Every write names the UID it means, or is a compare-and-set."""

    kube: Kube
    machines: Machines
    bus: Bus
    clock: Clock
    recorder: Recorder
    metrics: Metrics

    async def close(self, node: Node, generation_api: str) -> None:
        """TRM-03, TRM-04: no new pods, no traffic from load balancers."""
        closed = is_closed(node) if generation_api == V1 else node.unschedulable
        if closed and keys.EXCLUDE_FROM_BALANCERS in node.labels:
            return
        try:
            await NodeMarks(self.kube).close(node.name, generation_api, EXCLUDED)
        except (NotFound, Conflict):
            return
        log.info("tainted node" if generation_api == V1 else "cordoned node", node=node.name)

    async def deadline(self, machine: Machine, node: Node | None) -> Machine:
        """TRM-10: when a machine's drain ends, written once from its terminationGracePeriod."""
        grace = machine.termination_grace_seconds
        if grace is None or machine.terminate_at is not None or not machine.deleted_at:
            return machine
        at = machine.deleted_at + grace
        note = {"annotations": {keys.TERMINATION_TIMESTAMP: rfc3339(at)}}
        try:
            await self.machines.patch(machine, note)
        except (NotFound, Conflict):
            return machine
        text = f"All pods will be deleted by {rfc3339(at)}"
        subjects = [to_machine(machine), *([to_node(node)] if node else [])]
        for involved in subjects:
            await self.recorder.publish(involved, "Warning", "TerminationGracePeriodExpiring", text)
        return replace(machine, terminate_at=at)

    async def draining(self, machine: Machine) -> None:
        """TRM-05."""
        await self._tell(machine, DRAINED, Condition("Unknown", "Draining", "", self.clock.now()))

    async def drained(self, node: Node, machine: Machine | None) -> None:
        """TRM-05."""
        log.info("drained node", node=node.name)
        self.metrics.nodes_drained.labels(node.pool).inc()
        self.forget_drain(node)
        if machine is not None:
            await self._tell(machine, DRAINED, Condition("True", DRAINED, "", self.clock.now()))

    def forget_drain(self, node: Node) -> None:
        """The gauge of a drain goes with it."""
        try:
            self.metrics.drain_seconds.remove(node.name)
        except KeyError:
            return

    async def awaiting_volumes(
        self, node: Node, machine: Machine | None, volumes: list[str]
    ) -> None:
        """TRM-13."""
        text = f"Awaiting deletion of volume attachments: {', '.join(volumes[:5])}"
        await self.recorder.publish(to_node(node), "Normal", "AwaitingVolumeDetachment", text)
        if machine is not None:
            waits = Condition("Unknown", "AwaitingVolumeDetachment", text, self.clock.now())
            await self._tell(machine, VOLUMES_DETACHED, waits)

    async def volumes_detached(self, machine: Machine, *, elapsed: bool) -> None:
        """TRM-13."""
        if machine.has(VOLUMES_DETACHED):
            return
        status, reason = (
            ("False", "TerminationGracePeriodElapsed") if elapsed else ("True", VOLUMES_DETACHED)
        )
        await self._tell(machine, VOLUMES_DETACHED, Condition(status, reason, "", self.clock.now()))

    async def instance_terminating(self, machine: Machine) -> None:
        """TRM-14."""
        found = Condition("True", INSTANCE_TERMINATING, "", self.clock.now())
        await self._tell(machine, INSTANCE_TERMINATING, found)

    async def _tell(self, machine: Machine, kind: str, condition: Condition) -> None:
        """v1 only: a Machine has no such conditions. Nobody waits for them, so a lost race is no failure."""
        if machine.generation_api != V1:
            return
        try:
            await self.machines.write_condition(machine, kind, condition)
        except Conflict as error:
            log.info("condition not written", machine=machine.name, error=error.message)

    async def delete_machine(self, machine: Machine) -> None:
        """The node was deleted: so is its Machine (TRM-02)."""
        await self.machines.delete(machine)

    async def release_node(self, node: Node, seconds: float) -> None:
        """Take our finalizer off the node: it disappears (TRM-15). ``seconds`` it took."""
        self.forget_drain(node)
        if await self._release(NODES, node.name, node.uid):
            log.info("deleted node", node=node.name)
            self.metrics.nodes_terminated.labels(node.pool, node.labels.get(keys.ZONE, "")).inc()
            self.metrics.node_termination_seconds.labels(node.pool).observe(seconds)
            lifetime = max(0.0, self.clock.now() - node.created_at)
            self.metrics.node_lifetime_seconds.labels(node.pool).observe(lifetime)

    async def release_machine(self, machine: Machine, seconds: float) -> None:
        """Take our finalizer off the Machine, count it, tell the scheduler."""
        resource = RECORDS[machine.kind]
        if not await self._release(resource, machine.name, machine.uid):
            return
        text = "deleted nodeclaim" if machine.generation_api == V1 else "deleted machine"
        log.info(text, machine=machine.name, provider_id=machine.provider_id)
        self.metrics.machines_terminated.labels(
            machine.pool, machine.capacity_type, machine.zone
        ).inc()
        self.metrics.machine_termination_seconds.labels(machine.pool).observe(seconds)
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

    async def evicted(self, pod: Pod, why: str) -> None:
        """TRM-08: the pod's own event."""
        await self.recorder.publish(to_pod(pod), "Normal", "Evicted", f"Evicted pod: {why}")

    async def disrupted(self, pod: Pod) -> None:
        """TRM-11."""
        text = "Deleted pod: its node's termination grace period ends"
        await self.recorder.publish(to_pod(pod), "Normal", "Disrupted", text)

    async def blocked(self, node: Node, pod: Pod, why: str) -> None:
        """TRM-08: say on the node what holds its drain."""
        await self.recorder.publish(
            to_node(node),
            "Warning",
            "FailedDraining",
            f"Failed to drain node, pod {pod.key} stays: {why}",
            dedupe_seconds=BLOCKED_SECONDS,
        )
