"""Writes a lifecycle action on its node, by compare-and-set: several hooks, services and people write there.

One patch closes the node and says why, so that no crash leaves a closed node that nobody opens or drains.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.interruption.notices.notice import OUR_TAINT_VALUE
from shared.api.core.nodes import parse_node, taint_objects
from shared.domain import labels as keys
from shared.domain.expressions import NO_SCHEDULE, Taint
from shared.domain.machines.lifecycle_actions import (
    Hook,
    LifecycleAction,
    ended,
    joined,
    parse_lifecycle_action,
)
from shared.domain.nodes import Node
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODES

TRIES = 3
TAINT = Taint(keys.LIFECYCLE_TAINT_KEY, NO_SCHEDULE, OUR_TAINT_VALUE)
"""Closes a node whose auto scaling group ends it (INT-42)."""


@dataclass
class HookAnnotations:
    """Reads the node afresh before each write. Methods raise NotFound, also when another node has the name by now."""

    kube: Kube

    async def begin(self, node: Node, new: LifecycleAction) -> bool:
        """Close the node and ask for its drain. False: that was written before."""

        def change(found: Node, held: LifecycleAction | None) -> dict[str, Any] | None:
            desired = joined(held, new)
            if desired == held:
                return None
            notes: dict[str, str | None] = {keys.LIFECYCLE_ANNOTATION: desired.text}
            if desired == new:
                notes[keys.DRAINED_ANNOTATION] = None  # of an earlier life of the instance
            others = tuple(taint for taint in found.taints if taint.key != TAINT.key)
            spec = {"unschedulable": True, "taints": taint_objects((*others, TAINT))}
            return {"metadata": {"annotations": notes}, "spec": spec}

        return await self._write(node, change)

    async def end(self, node: Node, hook: Hook, how: str) -> bool:
        """Write that this hook waits no longer. False: that was written before."""

        def change(_: Node, held: LifecycleAction | None) -> dict[str, Any] | None:
            desired = held and ended(held, hook, how)
            if desired is None or desired == held:
                return None
            return {"metadata": {"annotations": {keys.LIFECYCLE_ANNOTATION: desired.text}}}

        return await self._write(node, change)

    async def _write(
        self,
        node: Node,
        change: Callable[[Node, LifecycleAction | None], dict[str, Any] | None],
    ) -> bool:
        for attempt in range(TRIES):
            raw = await self.kube.get(NODES, node.name)
            if raw["metadata"]["uid"] != node.uid:
                raise NotFound(f"node {node.name} has been replaced by another of its name")
            found = parse_node(raw)
            body = change(found, action_of(found))
            if body is None:
                return False
            body["metadata"]["resourceVersion"] = raw["metadata"]["resourceVersion"]
            try:
                await self.kube.patch(NODES, node.name, body)
                return True
            except Conflict:
                if attempt == TRIES - 1:
                    raise
        return False


def action_of(node: Node) -> LifecycleAction | None:
    """The lifecycle action that is written on the node; None: none is."""
    return parse_lifecycle_action(node.annotations.get(keys.LIFECYCLE_ANNOTATION, ""))
