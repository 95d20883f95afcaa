"""Drains a node: no new pods, no running pods, no attached volumes (TRM-03..TRM-13).

A crash costs only the time when the drain began, that is, five seconds. A volume that is torn off its node may lose
writes, and its pod waits six minutes elsewhere for the attachment. Volumes of pods that the drain leaves alone stay
attached to the end and are not waited for (TRM-13).

The wall clock may be wrong or jump: one that jumps ahead during a drain brings its deadline no nearer, and a pod counts
as stuck only when the drain itself has waited for it long enough; a restart begins that wait again. What may go wrong:
a clock that is wrong already when a drain begins, or a terminator restarts, moves the deadline by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from services.terminator.batched_lists import BatchedLists
from services.terminator.drain.eviction import Evictions
from services.terminator.drain.pods import next_step, stays
from services.terminator.drain.state import DrainState
from services.terminator.ports import Ports
from services.terminator.terminating_node import TerminatingNode
from services.terminator.waiting.step import AGAIN, Next
from services.terminator.writer import Writer
from shared.api.core.pods import parse_pod
from shared.domain.nodes import Node
from shared.domain.records import MACHINES
from shared.domain.workloads.pods import Pod
from shared.kube.client import Kube
from shared.kube.reading import or_none
from shared.kube.resources import PODS, PVCS

Json = Mapping[str, Any]


@dataclass
class DrainController:
    """Drains nodes and waits for their volumes."""

    ports: Ports
    writer: Writer
    evictions: Evictions
    lists: BatchedLists
    _drains: dict[str, DrainState] = field(default_factory=dict)
    """By node UID."""

    async def is_drained(self, target: TerminatingNode) -> bool:
        """One round of the drain. True when the instance may be terminated."""
        # Closed first: the scheduler must not bind a pod to a node whose pods were counted.
        was_open = await self.writer.close(target.node, target.api)
        clock, deadline = self.ports.clock, target.deadline
        known = self._drains.get(target.node.uid)
        drain = known or DrainState.begin(clock)
        if deadline is not None and drain.now(clock) >= deadline:
            await self._end(target, drain)
            return True
        if known is None:
            self._drains[target.node.uid] = drain
            await self.writer.draining(target)
        if was_open:
            drain.ended = False  # Pods may have come while somebody had opened the node again.
        if not drain.ended:
            drain.ended = await self._are_pods_gone(target, drain)
        return drain.ended and await self._is_detached(target, drain)

    def wait(self, target: TerminatingNode) -> Next:
        """What to wait for after a round that left the node undrained. Attachments of volumes are not in the mirror."""
        drain = self._drains.get(target.node.uid)
        if drain is None or drain.ended:
            return AGAIN
        machine = target.machine
        return drain.wait(target.node.name, *([(MACHINES, machine.key)] if machine else ()))

    def forget(self, node: Node) -> None:
        """The node is gone, or is not drained any more."""
        self._drains.pop(node.uid, None)
        self.evictions.forget(node)
        self.writer.forget_drain(node)

    async def _end(self, target: TerminatingNode, drain: DrainState) -> None:
        """At the deadline pods get their last deletion, and nothing is waited for (TRM-12)."""
        await self._take_pods(target, drain)
        await self.writer.volumes_detached(target, elapsed=True)

    async def _are_pods_gone(self, target: TerminatingNode, drain: DrainState) -> bool:
        """No pod is left, and load balancers had five seconds to take the node out (TRM-05)."""
        left = await self._take_pods(target, drain)
        seconds = self.ports.clock.monotonic() - drain.began
        minimum = self.ports.settings.drain_minimum
        if left or seconds < minimum:
            if seconds < minimum:
                drain.due = min(drain.due, drain.began + minimum)
            self._measure(target, drain, seconds)
            return False
        self.evictions.forget(target.node)
        await self.writer.drained(target)
        return True

    def _measure(self, target: TerminatingNode, drain: DrainState, seconds: float) -> None:
        metrics, node = self.ports.metrics, target.node.name
        metrics.drain_seconds.labels(node).set(seconds)
        if target.deadline is not None:
            left = max(0.0, target.deadline - drain.now(self.ports.clock))
            metrics.drain_deadline_seconds.labels(node).set(left)

    async def _take_pods(self, target: TerminatingNode, drain: DrainState) -> int:
        """One round of evictions and deletions; how many pods still have to leave."""
        pods = await self._pods(target.node)
        now, fresh = self._times(drain, pods)
        step = next_step(pods, target.api, now=now, deadline=target.deadline, fresh=fresh)
        retry = await self.evictions.carry_out(target.node, step, target.why)
        drain.plan(pods, retry, target.deadline, self.ports.clock)
        return step.left

    def _times(self, drain: DrainState, pods: Iterable[Pod]) -> tuple[float, frozenset[str]]:
        """Seconds since the epoch, and the UIDs of the pods that are not stuck yet."""
        clock = self.ports.clock
        return drain.now(clock), drain.fresh(pods, clock.monotonic())

    async def _is_detached(self, target: TerminatingNode, drain: DrainState) -> bool:
        """No volume of a drained pod is still attached (TRM-13)."""
        specs = [raw.get("spec") or {} for raw in await self.lists.volume_attachments()]
        # A volume on several nodes has an attachment for each.
        here = [spec for spec in specs if spec.get("nodeName") == target.node.name]
        volumes = still_attached(here, await self._staying(target, drain)) if here else []
        if volumes:
            await self.writer.awaiting_volumes(target, volumes)
            return False
        await self.writer.volumes_detached(target, elapsed=False)
        return True

    async def _staying(self, target: TerminatingNode, drain: DrainState) -> set[str]:
        """Volumes of the pods that a drain leaves alone: they stay attached to the end."""
        pods = await self._pods(target.node)
        now, fresh = self._times(drain, pods)
        left_alone = [pod for pod in pods if stays(pod, target.api, now=now, fresh=fresh)]
        return await volumes_of(self.ports.kube, left_alone)

    async def _pods(self, node: Node) -> list[Pod]:
        listed = await self.ports.kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        return [parse_pod(raw) for raw in listed.items]


def still_attached(here: Iterable[Json], staying: Set[str]) -> list[str]:
    """Names of the persistent volumes to wait for. ``here``: specs of attachments to the node; ``staying``: volumes of
    pods that are not drained."""
    sources = [spec.get("source") or {} for spec in here]
    names = {str(source.get("persistentVolumeName") or "") for source in sources}
    return sorted(names - staying - {""})


async def volumes_of(kube: Kube, pods: Iterable[Pod]) -> set[str]:
    """Names of the persistent volumes that these pods use."""
    names = set()
    for pod in pods:
        for name in pod.volume_claims:
            raw = await or_none(kube.get(PVCS, name, pod.namespace)) or {}
            if volume := (raw.get("spec") or {}).get("volumeName"):
                names.add(str(volume))
    return names
