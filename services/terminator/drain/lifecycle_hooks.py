"""Drains nodes that no pool owns, whose auto scaling group ends them and waits for the drain (INT-41).

The interruption service's annotation on the node says until when; that the node is drained is written beside it. Where
only a cordon is desired, nothing is evicted: the node is drained when its pods have ended by themselves. The node, its
instance and its volumes are taken away by others. Daemon pods stay, as for ``kubectl drain``.

What may go wrong: a budget refuses until the end. Then the pods are deleted so early that their grace fits, as for a
Machine with a termination grace period (TRM-11).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from services.terminator.drain.eviction import Evictions
from services.terminator.drain.pods import DrainStep, next_step
from services.terminator.ports import Ports
from services.terminator.terminating_node import AGAIN, DONE, Step
from shared.api.core.nodes import parse_node
from shared.api.core.pods import parse_pod
from shared.api.core.references import to_node
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.machines.lifecycle_actions import LifecycleAction, parse_lifecycle_action
from shared.domain.nodes import OUT_OF_SERVICE, Node
from shared.domain.pools.generations import GENERATIONS, V1ALPHA5
from shared.errors import Conflict, NotFound
from shared.kube.node_taints import NodeTaints
from shared.kube.reading import or_none
from shared.kube.resources import NODES, PODS
from shared.log import get_logger

log = get_logger(__name__)

WHY = "its auto scaling group ends the instance"
REASON = "ASGLifecycle"


@dataclass
class LifecycleDrains:
    """One step at a time, by the node's name. A restart forgets only when each pod was tried."""

    ports: Ports
    evictions: Evictions
    _nodes: dict[str, Node] = field(default_factory=dict)
    """The nodes that are being drained, by name."""

    async def step(self, name: str) -> Step:
        """One round of evictions. DONE when the node is drained, or needs no drain."""
        raw = await or_none(self.ports.kube.get(NODES, name))
        node = parse_node(raw) if raw is not None else None
        action = _open_action(node) if node and self.ports.settings.self_managed_nodes else None
        if node is None or action is None:
            return self._forget(name)
        self._nodes[name] = node
        step = await self._next(node, action)
        late = self.ports.clock.now() >= action.until
        if action.evict:
            await self.evictions.carry_out(node, step, WHY)
        if step.left and not late:
            return AGAIN
        await self._drained(node, step.left)
        return self._forget(name)

    def _forget(self, name: str) -> Step:
        node = self._nodes.pop(name, None)
        if node is not None:
            self.evictions.forget(node)
        return DONE

    async def _next(self, node: Node, action: LifecycleAction) -> DrainStep:
        listed = await self.ports.kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        pods = [pod for pod in map(parse_pod, listed.items) if not pod.is_daemon]
        # The node is cordoned, which is how v1alpha5 closes one.
        return next_step(
            pods, GENERATIONS[V1ALPHA5], now=self.ports.clock.now(), deadline=action.until
        )

    async def _drained(self, node: Node, left: int) -> None:
        now = rfc3339(self.ports.clock.now())
        if not left and self.ports.settings.enable_out_of_service_taint:
            # Before the annotation, which says that nothing is left to be done.
            with suppress(NotFound):
                await NodeTaints(self.ports.kube).taint(node.name, OUT_OF_SERVICE, node.uid)
        metadata = {"uid": node.uid, "annotations": {keys.DRAINED_ANNOTATION: now}}
        try:
            await self.ports.kube.patch(NODES, node.name, {"metadata": metadata})
        except (NotFound, Conflict):
            return
        log.info("drained node for a lifecycle hook", node=node.name, left=left)
        text = f"Node is drained, {left} pods are left" if left else "Node is drained"
        kind = "Warning" if left else "Normal"
        await self.ports.recorder.publish(to_node(node), kind, REASON, text)


def needs_drain(raw: Mapping[str, Any]) -> bool:
    """Does a lifecycle hook wait for the drain of this node, as it was listed?"""
    annotations = raw["metadata"].get("annotations") or {}
    if keys.LIFECYCLE_ANNOTATION not in annotations or keys.DRAINED_ANNOTATION in annotations:
        return False
    return parse_lifecycle_action(annotations[keys.LIFECYCLE_ANNOTATION]) is not None


def _open_action(node: Node) -> LifecycleAction | None:
    """None: drained already, or not asked for. A node with our finalizer is drained for its Machine."""
    if keys.DRAINED_ANNOTATION in node.annotations or keys.FINALIZER in node.finalizers:
        return None
    return parse_lifecycle_action(node.annotations.get(keys.LIFECYCLE_ANNOTATION, ""))
