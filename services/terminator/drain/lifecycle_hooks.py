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
from math import inf
from typing import Any

from services.terminator.drain.eviction import Evictions
from services.terminator.drain.pods import next_step
from services.terminator.drain.state import DrainState
from services.terminator.ports import Ports
from services.terminator.waiting.step import DONE, Next
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
    """One step at a time, by the node's name. A restart forgets only when the drain began and each pod was tried."""

    ports: Ports
    evictions: Evictions
    _nodes: dict[str, tuple[Node, DrainState]] = field(default_factory=dict)
    """The nodes that are being drained, by name."""

    async def step(self, name: str) -> Next:
        """One round of evictions. DONE when the node is drained, or needs no drain."""
        raw = await or_none(self.ports.kube.get(NODES, name))
        node = parse_node(raw) if raw is not None else None
        action = _open_action(node) if node and self.ports.settings.self_managed_nodes else None
        if node is None or action is None:
            return self._forget(name)
        drain = self._begin(node)
        late = drain.now(self.ports.clock) >= action.until
        left = await self._take_pods(node, action, drain)
        if left and not late:
            return drain.wait(name)
        await self._drained(node, left)
        return self._forget(name)

    def _begin(self, node: Node) -> DrainState:
        before, drain = self._nodes.get(node.name, (node, DrainState.begin(self.ports.clock)))
        if before.uid != node.uid:
            drain = DrainState.begin(self.ports.clock)
        self._nodes[node.name] = node, drain
        return drain

    def _forget(self, name: str) -> Next:
        if name in self._nodes:
            self.evictions.forget(self._nodes.pop(name)[0])
        return DONE

    async def _take_pods(self, node: Node, action: LifecycleAction, drain: DrainState) -> int:
        """One round of evictions and deletions; how many pods still have to leave."""
        clock = self.ports.clock
        listed = await self.ports.kube.list(PODS, field_selector=f"spec.nodeName={node.name}")
        pods = [pod for pod in map(parse_pod, listed.items) if not pod.is_daemon]
        now, fresh = drain.now(clock), drain.fresh(pods, clock.monotonic())
        # The node is cordoned, which is how v1alpha5 closes one.
        api = GENERATIONS[V1ALPHA5]
        step = next_step(pods, api, now=now, deadline=action.until, fresh=fresh)
        retry = await self.evictions.carry_out(node, step, WHY) if action.evict else inf
        drain.plan(pods, retry, action.until, clock)
        return step.left

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
