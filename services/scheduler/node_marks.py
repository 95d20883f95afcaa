"""What a command writes to nodes: no new pods while it runs, and all of it taken back when it fails (EXE-02, EXE-05).

v1 taints the node; v1alpha5 knows only ``spec.unschedulable``, and only for nodes that are replaced (EXE-07, KEY-04).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.api.nodes import parse_node, taint_objects
from shared.domain import labels as keys
from shared.domain.expressions import NO_SCHEDULE, Taint
from shared.domain.nodepools import V1
from shared.domain.nodes import Node
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODES

DISRUPTED = Taint(keys.DISRUPTED_TAINT_KEY, NO_SCHEDULE)
TRIES = 3


@dataclass
class NodeMarks:
    """Writes by compare-and-set: taints are one list with several writers."""

    kube: Kube

    async def close(self, name: str, generation_api: str, *, replaced: bool) -> None:
        """Keep new pods off. Raises NotFound, and Conflict after some tries."""
        if generation_api == V1:
            await self._taint(name, closed=True)
        elif replaced:
            await self.kube.patch(NODES, name, {"spec": {"unschedulable": True}})

    async def open(self, name: str, generation_api: str) -> None:
        """Let pods come again. A node that is gone needs nothing."""
        try:
            if generation_api == V1:
                await self._taint(name, closed=False)
            else:
                await self.kube.patch(NODES, name, {"spec": {"unschedulable": None}})
        except NotFound:
            return

    async def _taint(self, name: str, *, closed: bool) -> None:
        for attempt in range(TRIES):
            raw = await self.kube.get(NODES, name)
            node = parse_node(raw)
            if is_closed(node) is closed:
                return
            try:
                await self.kube.patch(NODES, name, _body(raw, node, closed=closed))
                return
            except Conflict:
                if attempt == TRIES - 1:
                    raise


def is_closed(node: Node) -> bool:
    """Does the node carry the disrupted taint?"""
    return any(taint.key == keys.DISRUPTED_TAINT_KEY for taint in node.taints)


def _body(raw: dict[str, Any], node: Node, *, closed: bool) -> dict[str, Any]:
    others = tuple(taint for taint in node.taints if taint.key != keys.DISRUPTED_TAINT_KEY)
    taints = (*others, DISRUPTED) if closed else others
    return {
        "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
        "spec": {"taints": taint_objects(taints) or None},
    }
