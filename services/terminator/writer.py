"""What the terminator writes to nodes and Machines, and the events and messages that go with it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from services.terminator.ports import Ports
from services.terminator.terminating_node import TerminatingNode
from shared.api.core.references import to_machine, to_node, to_pod
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import (
    DRAINED,
    INSTANCE_TERMINATING,
    VOLUMES_DETACHED,
    Condition,
    Machine,
)
from shared.domain.nodes import Node
from shared.domain.pools.generations import Generation
from shared.domain.workloads.pods import Pod
from shared.errors import Conflict, DovetailError, NotFound
from shared.kube.machines import Machines
from shared.kube.node_taints import NodeTaints, is_cordoned
from shared.kube.reading import or_none
from shared.kube.resources import MACHINES, NODE_CLAIMS, NODES, Resource
from shared.log import get_logger
from shared.redis import streams
from shared.redis.messages import MachineTerminated, send

log = get_logger(__name__)

RECORDS = {resource.kind: resource for resource in (MACHINES, NODE_CLAIMS)}
EXCLUDED = {keys.EXCLUDE_FROM_BALANCERS: "karpenter"}
ELAPSED = "TerminationGracePeriodElapsed"
BLOCKED_SECONDS = 300.0
"""How often a waiting drain repeats its event (F22)."""


@dataclass
class Writer:
    """Every write names the UID it means, or is a compare-and-set. Machines of both generations, nodes, events."""

    ports: Ports
    machines: Machines

    async def close(self, node: Node, api: Generation) -> bool:
        """No new pods, no load balancer traffic (TRM-03, TRM-04). True when the node was open. Raises Conflict: an open
        node is not drained."""
        closed = is_cordoned(node) if api.closes_by_taint else node.unschedulable
        if closed and keys.EXCLUDE_FROM_BALANCERS in node.labels:
            return False
        try:
            await NodeTaints(self.ports.kube).cordon(node.name, api, EXCLUDED, uid=node.uid)
        except NotFound:
            return False
        log.info("tainted node" if api.closes_by_taint else "cordoned node", node=node.name)
        return True

    async def deadline(self, machine: Machine, node: Node | None) -> Machine:
        """Write once when the Machine's drain ends, from its terminationGracePeriod (TRM-10)."""
        grace = machine.termination_grace_seconds
        if grace is None or machine.terminate_at is not None or not machine.deleted_at:
            return machine
        at = machine.deleted_at + grace
        text = f"All pods will be deleted by {rfc3339(at)}"
        subjects = [to_machine(machine), *([to_node(node)] if node else [])]
        for involved in subjects:
            await self.ports.recorder.publish(
                involved, "Warning", "TerminationGracePeriodExpiring", text
            )
        note = {"annotations": {keys.TERMINATION_TIMESTAMP: rfc3339(at)}}
        try:
            await self.machines.patch(machine, note)
        except (NotFound, Conflict):
            return machine
        return replace(machine, terminate_at=at)

    async def delete_node(self, node: Node) -> None:
        """The machine was deleted: so is its node (TRM-02)."""
        try:
            await self.ports.kube.delete(NODES, node.name, uid=node.uid)
        except (NotFound, Conflict):
            log.info("node changed meanwhile", node=node.name)

    async def draining(self, target: TerminatingNode) -> None:
        """The drain has begun (TRM-05)."""
        await self._write_condition(target.machine, DRAINED, Condition("Unknown", "Draining"))

    async def drained(self, target: TerminatingNode) -> None:
        """The drain is over (TRM-05)."""
        log.info("drained node", node=target.node.name)
        self.ports.metrics.nodes_drained.labels(target.node.pool).inc()
        self.forget_drain(target.node)
        await self._write_condition(target.machine, DRAINED, Condition("True", DRAINED))

    def forget_drain(self, node: Node) -> None:
        metrics = self.ports.metrics
        for gauge in (metrics.drain_seconds, metrics.drain_deadline_seconds):
            with suppress(KeyError):
                gauge.remove(node.name)

    async def awaiting_volumes(self, target: TerminatingNode, volumes: list[str]) -> None:
        """These volumes are still attached (TRM-13)."""
        text = f"Awaiting deletion of volume attachments: {', '.join(volumes[:5])}"
        if len(volumes) > 5:
            text += f" and {len(volumes) - 5} more"
        reason = "AwaitingVolumeDetachment"
        await self.ports.recorder.publish(to_node(target.node), "Normal", reason, text)
        await self._write_condition(
            target.machine, VOLUMES_DETACHED, Condition("Unknown", reason, text)
        )

    async def volumes_detached(self, target: TerminatingNode, *, elapsed: bool) -> None:
        """No volume is waited for any more (TRM-12, TRM-13). With ``elapsed`` a condition that is True stays True."""
        machine = target.machine
        if machine is None or (elapsed and machine.has(VOLUMES_DETACHED)):
            return
        status, reason = ("False", ELAPSED) if elapsed else ("True", VOLUMES_DETACHED)
        await self._write_condition(machine, VOLUMES_DETACHED, Condition(status, reason))

    async def instance_terminating(self, machine: Machine, since: float) -> None:
        """The instance was ordered to terminate (TRM-14). ``since``: when it stopped, so that no ledger counts the time
        until the order; 0: it ran until now."""
        await self._write_condition(
            machine, INSTANCE_TERMINATING, Condition("True", INSTANCE_TERMINATING, since=since)
        )

    async def termination_failed(
        self, node: Node | None, machine: Machine | None, error: DovetailError
    ) -> None:
        """EC2 refused the order to terminate, which is repeated (EVT-02)."""
        labels = machine.labels if machine else node.labels if node else {}
        place = (labels.get(keys.ZONE, ""), labels.get(keys.ZONE_ID, ""))
        self.ports.metrics.termination_failures.labels(*place).inc()
        text = f"Failed to terminate node, {error.message}"
        for involved in (node and to_node(node), machine and to_machine(machine)):
            if involved:
                await self.ports.recorder.publish(involved, "Warning", "FailedTermination", text)

    async def unlikely_absence(
        self, node: Node | None, machine: Machine | None, instance_id: str
    ) -> None:
        """EC2 does not know an instance whose node is Ready (F23). Nothing is released until one of them changes."""
        text = f"EC2 does not know {instance_id} although its node is Ready; are region and account right?"
        for involved in (node and to_node(node), machine and to_machine(machine)):
            if involved:
                await self.ports.recorder.publish(
                    involved, "Warning", "FailedTermination", text, dedupe_seconds=BLOCKED_SECONDS
                )

    async def _write_condition(
        self, machine: Machine | None, kind: str, condition: Condition
    ) -> None:
        """Nothing waits for these conditions, so a lost race is no failure.

        Karpenter's Machine of v1alpha5 has none of them. Ours says one: from when an instance costs nothing any more.
        """
        if machine is None or not (machine.api.detailed_status or kind == INSTANCE_TERMINATING):
            return
        known = machine.conditions.get(kind)
        if known and (known.status, known.message) == (condition.status, condition.message):
            return
        now = replace(condition, since=condition.since or self.ports.clock.now())
        try:
            await self.machines.write_condition(machine, kind, now)
        except Conflict as error:
            log.info("condition not written", machine=machine.name, error=error.message)

    async def release_node(self, node: Node) -> None:
        """Take our finalizer off the node: it disappears (TRM-15). One that never had it is deleted."""
        seconds = await self._release(NODES, node.name, node.uid)
        if not node.terminating:
            await self.delete_node(node)
        if seconds is None:
            return
        log.info("deleted node", node=node.name)
        lifetime = max(0.0, self.ports.clock.now() - node.created_at)
        self.ports.metrics.count_gone(node, seconds=seconds, lifetime=lifetime)

    async def release_machine(self, machine: Machine) -> None:
        """Take our finalizer off the Machine, count it, inform the scheduler."""
        seconds = await self._release(RECORDS[machine.kind], machine.name, machine.uid)
        if seconds is None:
            return
        text = machine.api.worded("deleted nodeclaim")
        log.info(text, machine=machine.name, provider_id=machine.provider_id)
        self.ports.metrics.machines_terminated.labels(
            machine.pool, machine.capacity_type, machine.zone
        ).inc()
        self.ports.metrics.count_event(machine, "terminated")
        self.ports.metrics.machine_termination_seconds.labels(machine.pool).observe(seconds)
        message = MachineTerminated(machine=machine.key)
        await send(
            self.ports.bus, streams.MACHINES, message, cause=machine.uid, clock=self.ports.clock
        )

    async def _release(self, resource: Resource, name: str, uid: str) -> float | None:
        """Compare-and-set on the finalizer list (TRM-15). Seconds since the deletion was ordered; None: nothing to
        release.
        """
        raw = await or_none(self.ports.kube.get(resource, name))
        if raw is None:
            return None
        meta = raw["metadata"]
        finalizers = meta.get("finalizers") or []
        if meta["uid"] != uid or keys.FINALIZER not in finalizers:
            return None
        # The resource version makes it a compare-and-set: finalizers that others added meanwhile are not lost.
        left = [finalizer for finalizer in finalizers if finalizer != keys.FINALIZER]
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": left or None}
        }
        try:
            await self.ports.kube.patch(resource, name, body)
        except NotFound:
            return None
        ordered = meta.get("deletionTimestamp")
        return max(0.0, self.ports.clock.now() - parse_rfc3339(ordered)) if ordered else 0.0

    async def evicted(self, pod: Pod, why: str) -> None:
        """The event of an evicted pod (TRM-08)."""
        await self.ports.recorder.publish(to_pod(pod), "Normal", "Evicted", f"Evicted pod: {why}")

    async def disrupted(self, pod: Pod, grace_seconds: int) -> None:
        """The event of a pod that is deleted at the deadline (TRM-11)."""
        cut = f" of its {pod.grace_seconds} s" if grace_seconds < pod.grace_seconds else ""
        text = (
            f"Deleted pod with {grace_seconds} s{cut} of grace, past budgets and annotations: "
            "its node's termination grace period ends"
        )
        await self.ports.recorder.publish(to_pod(pod), "Normal", "Disrupted", text)

    async def blocked(self, node: Node, pod: Pod, why: str) -> None:
        """The node's event about what holds its drain (TRM-08)."""
        await self.ports.recorder.publish(
            to_node(node),
            "Warning",
            "FailedDraining",
            f"Failed to drain node, pod {pod.key} stays: {why}",
            dedupe_seconds=BLOCKED_SECONDS,
        )
