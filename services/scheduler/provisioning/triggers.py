"""What a change of the mirror triggers: a new plan for pods that lose their node, or that may find a place now.

Pods that wait are not among it: the watcher reports each on the stream ``pods`` (``handlers``), and the planner lists
all of them every few seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from shared.domain.records import (
    CLAIMS,
    NAMESPACES,
    NODE_CLASSES,
    NODE_OVERLAYS,
    NODE_POOLS,
    STORAGE_CLASSES,
    VOLUMES,
)
from shared.redis.mirror import Change

RECONSIDERED = (
    NODE_POOLS, NODE_CLASSES, NODE_OVERLAYS, CLAIMS, VOLUMES, STORAGE_CLASSES, NAMESPACES,
)  # fmt: skip
"""Kinds whose change may give a place to pods that had none."""


class _Object(msgspec.Struct):
    """The only part of a Node or Machine record that is needed here."""

    terminating: bool = False


_OBJECT = msgspec.json.Decoder(_Object)


@dataclass
class TerminationTrigger:
    """Machines and nodes that begin to terminate, whoever ordered it: their pods join the batch (POD-09, INT-22).

    Each triggers once: later changes of the same object would only delay the plan.
    """

    trigger: Callable[[str], None]
    _known: set[str] = field(default_factory=set)

    def note(self, change: Change) -> None:
        """Follow one change of a Node or Machine in the mirror."""
        name = f"{change.kind}/{change.key}"
        if change.body is None:
            self._known.discard(name)
        elif name not in self._known and _is_terminating(change.body):
            self._known.add(name)
            self.trigger(name)


def _is_terminating(body: bytes) -> bool:
    try:
        return _OBJECT.decode(body).terminating
    except msgspec.MsgspecError:
        return False  # the view, which decodes all of it, reports what is wrong
