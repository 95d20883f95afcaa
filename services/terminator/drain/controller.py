"""Takes from a node everything that is worth waiting for: new pods, running pods, volumes (TRM-03..TRM-13).

A crash costs the memory of when the drain began, that is, five seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.terminator.batched_lists import Listings
from services.terminator.drain.eviction import Evictions
from services.terminator.drain.pods import next_step, stays
from services.terminator.drain.volumes import on_node, still_attached, volumes_of
from services.terminator.terminating_node import Departure
from services.terminator.writer import Writer
from shared.api.pods import parse_pod
from shared.clock import Clock
from shared.domain.nodes import Node
from shared.domain.pods import Pod
from shared.kube.client import Kube
from shared.kube.resources import PODS
from shared.metrics import Metrics
from shared.settings import TerminatorSettings


@dataclass
class Drain:
    """How far one drain is. ``began``: monotonic."""

    began: float
    ended: bool = False


@dataclass
class Clearing:
    """Drains nodes and waits for their volumes."""

    kube: Kube
    clock: Clock
    settings: TerminatorSettings
    metrics: Metrics
    writer: Writer
    evictions: Evictions
    listings: Listings
    _drains: dict[str, Drain] = field(default_factory=dict)
    """By node UID."""

    async def is_clear(self, departure: Departure) -> bool:
        """One round. True when the instance may be terminated."""
        await self.writer.close(departure.node, departure.generation_api)
        deadline = departure.deadline
        if deadline is not None and self.clock.now() >= deadline:
            await self._end(departure)
            return True
        drain = self._drains.get(departure.node.uid)
        if drain is None:
            drain = self._drains[departure.node.uid] = Drain(self.clock.monotonic())
            await self.writer.draining(departure)
        if not drain.ended:
            drain.ended = await self._is_drained(departure, drain)
        return drain.ended and await self._is_detached(departure)

    def forget(self, node: Node) -> None:
        """The node is gone, or nobody drains it any more."""
        self._drains.pop(node.uid, None)
        self.evictions.forget(node)
        self.writer.forget_drain(node)

    async def _end(self, departure: Departure) -> None:
        """TRM-12: the pods are told, and nothing is waited for."""
        await self._take_pods(departure)
        await self.writer.volumes_detached(departure, elapsed=True)

    async def _is_drained(self, departure: Departure, drain: Drain) -> bool:
        """TRM-05: nothing is left, and load balancers had their five seconds to see it coming."""
        left = await self._take_pods(departure)
        seconds = self.clock.monotonic() - drain.began
        if left or seconds < self.settings.drain_minimum:
            self.metrics.drain_seconds.labels(departure.node.name).set(seconds)
            return False
        self.evictions.forget(departure.node)
        await self.writer.drained(departure)
        return True

    async def _take_pods(self, departure: Departure) -> int:
        """One round of evictions and deletions; how many pods still have to leave."""
        pods = await self._pods(departure.node)
        step = next_step(
            pods, departure.generation_api, now=self.clock.now(), deadline=departure.deadline
        )
        await self.evictions.carry_out(departure.node, step, departure.why)
        return step.left

    async def _is_detached(self, departure: Departure) -> bool:
        """TRM-13."""
        here = on_node(await self.listings.volume_attachments(), departure.node.name)
        volumes = still_attached(here, await self._staying(departure)) if here else []
        if volumes:
            await self.writer.awaiting_volumes(departure, volumes)
            return False
        await self.writer.volumes_detached(departure, elapsed=False)
        return True

    async def _staying(self, departure: Departure) -> set[str]:
        """Volumes of pods that the drain passes by: they stay attached to the end."""
        now = self.clock.now()
        pods = await self._pods(departure.node)
        passed_by = [pod for pod in pods if stays(pod, departure.generation_api, now=now)]
        return await volumes_of(self.kube, passed_by)

    async def _pods(self, node: Node) -> list[Pod]:
        listed = await self.kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        return [parse_pod(raw) for raw in listed.items]
