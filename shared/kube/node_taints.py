"""Closing a node to new pods, and opening it again (EXE-02, EXE-05, TRM-03, TRM-04); other taints (INT-42).

v1 taints the node; v1alpha5 knows only ``spec.unschedulable`` (KEY-04).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.api.core.nodes import parse_node, taint_objects
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.nodes import DISRUPTED, Node
from shared.domain.pools.generations import Generation
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODES

TRIES = 3
NO_LABELS: Mapping[str, str] = {}
Taints = tuple[Taint, ...]


@dataclass
class NodeTaints:
    """Writes by compare-and-set: taints are one list with several writers."""

    kube: Kube

    async def close(
        self, name: str, api: Generation, labels: Mapping[str, str] = NO_LABELS, uid: str = ""
    ) -> None:
        """Keep new pods off, and set ``labels``. Raises NotFound, also when the name is no longer ``uid``'s, and
        Conflict after some tries.
        """
        if api.closes_by_taint:
            await self._taint(name, closed=True, labels=labels, uid=uid)
            return
        metadata = {"labels": dict(labels), **({"uid": uid} if uid else {})}
        try:
            await self.kube.patch(
                NODES, name, {"metadata": metadata, "spec": {"unschedulable": True}}
            )
        except Conflict as error:
            raise NotFound(f"node {name} is another by now: {error.message}") from error

    async def open(self, name: str, api: Generation) -> None:
        """Let pods come again. A node that is gone needs nothing."""
        try:
            if api.closes_by_taint:
                await self._taint(name, closed=False, labels=NO_LABELS)
            else:
                await self.kube.patch(NODES, name, {"spec": {"unschedulable": None}})
        except NotFound:
            return

    async def taint(self, name: str, taint: Taint, uid: str = "") -> None:
        """Put a taint on. Raises NotFound, also when the name is no longer ``uid``'s, and Conflict after some tries."""
        await self._change(name, lambda taints: (*_without(taints, taint.key), taint), uid=uid)

    async def untaint(self, name: str, taint: Taint, uid: str = "") -> None:
        """Take exactly this taint off. A node that is gone, or is another by now, needs nothing."""
        try:
            await self._change(name, lambda taints: _other_than(taints, taint), uid=uid)
        except NotFound:
            return

    async def _taint(
        self, name: str, *, closed: bool, labels: Mapping[str, str], uid: str = ""
    ) -> None:
        def change(taints: Taints) -> Taints:
            if closed is any(one.key == keys.DISRUPTED_TAINT_KEY for one in taints):
                return taints
            others = _without(taints, keys.DISRUPTED_TAINT_KEY)
            return (*others, DISRUPTED) if closed else others

        await self._change(name, change, labels, uid)

    async def _change(
        self,
        name: str,
        change: Callable[[Taints], Taints],
        labels: Mapping[str, str] = NO_LABELS,
        uid: str = "",
    ) -> None:
        for attempt in range(TRIES):
            raw = await self.kube.get(NODES, name)
            if uid and raw["metadata"]["uid"] != uid:
                raise NotFound(f"node {name} is another by now")
            node = parse_node(raw)
            wanted = change(node.taints)
            if wanted == node.taints and labels.items() <= node.labels.items():
                return
            try:
                await self.kube.patch(NODES, name, _body(raw, wanted, labels))
                return
            except Conflict:
                if attempt == TRIES - 1:
                    raise


def is_closed(node: Node) -> bool:
    """Does the node carry the disrupted taint?"""
    return any(taint.key == keys.DISRUPTED_TAINT_KEY for taint in node.taints)


def _without(taints: Taints, key: str) -> Taints:
    return tuple(taint for taint in taints if taint.key != key)


def _other_than(taints: Taints, one: Taint) -> Taints:
    return tuple(taint for taint in taints if taint != one)


def _body(raw: dict[str, Any], taints: Taints, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "metadata": {
            "resourceVersion": raw["metadata"]["resourceVersion"],
            "labels": dict(labels),
        },
        "spec": {"taints": taint_objects(taints) or None},
    }
