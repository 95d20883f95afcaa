"""Closing a node to new pods, and opening it again (EXE-02, EXE-05, TRM-03, TRM-04).

v1 taints the node; v1alpha5 knows only ``spec.unschedulable`` (KEY-04).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.api.nodes import parse_node, taint_objects
from shared.domain import labels as keys
from shared.domain.nodepools import V1
from shared.domain.nodes import DISRUPTED, Node
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODES

TRIES = 3
NO_LABELS: Mapping[str, str] = {}


@dataclass
class NodeMarks:
    """Writes by compare-and-set: taints are one list with several writers."""

    kube: Kube

    async def close(
        self, name: str, generation_api: str, labels: Mapping[str, str] = NO_LABELS
    ) -> None:
        """Keep new pods off, and set ``labels``. Raises NotFound, and Conflict after some tries."""
        if generation_api == V1:
            await self._taint(name, closed=True, labels=labels)
        else:
            body = {"metadata": {"labels": dict(labels)}, "spec": {"unschedulable": True}}
            await self.kube.patch(NODES, name, body)

    async def open(self, name: str, generation_api: str) -> None:
        """Let pods come again. A node that is gone needs nothing."""
        try:
            if generation_api == V1:
                await self._taint(name, closed=False, labels=NO_LABELS)
            else:
                await self.kube.patch(NODES, name, {"spec": {"unschedulable": None}})
        except NotFound:
            return

    async def _taint(self, name: str, *, closed: bool, labels: Mapping[str, str]) -> None:
        for attempt in range(TRIES):
            raw = await self.kube.get(NODES, name)
            node = parse_node(raw)
            if is_closed(node) is closed and labels.items() <= node.labels.items():
                return
            try:
                await self.kube.patch(NODES, name, _body(raw, node, closed, labels))
                return
            except Conflict:
                if attempt == TRIES - 1:
                    raise


def is_closed(node: Node) -> bool:
    """Does the node carry the disrupted taint?"""
    return any(taint.key == keys.DISRUPTED_TAINT_KEY for taint in node.taints)


def _body(
    raw: dict[str, Any], node: Node, closed: bool, labels: Mapping[str, str]
) -> dict[str, Any]:
    others = tuple(taint for taint in node.taints if taint.key != keys.DISRUPTED_TAINT_KEY)
    taints = (*others, DISRUPTED) if closed else others
    return {
        "metadata": {
            "resourceVersion": raw["metadata"]["resourceVersion"],
            "labels": dict(labels),
        },
        "spec": {"taints": taint_objects(taints) or None},
    }
