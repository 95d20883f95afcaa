"""The pods of interrupted nodes, kept after they left: where they went can be shown when the node is gone. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.console.picture.picture import Picture
from services.console.picture.rows import INTERRUPTION_TAINTS, PodRow

MOST_NODES = 200
MARKS = frozenset(INTERRUPTION_TAINTS.values())


@dataclass
class Evacuation:
    """One interrupted node. ``gone_at``: when it was first missing, in seconds since the epoch."""

    pods: dict[str, PodRow] = field(default_factory=dict)
    gone_at: float | None = None


@dataclass
class Evacuations:
    """By id of the node's row, at most ``MOST_NODES``."""

    _known: OrderedDict[str, Evacuation] = field(default_factory=OrderedDict)

    def note(self, picture: Picture, announced: Iterable[str], now: float) -> None:
        """Look at the nodes that are marked as interrupted or ``announced`` (ids of rows). Call it for each picture."""
        marked = (id_ for id_, row in picture.nodes.items() if not MARKS.isdisjoint(row.marks))
        for id_ in {*marked, *announced}:
            if id_ in picture.nodes:
                self._see(id_, picture)
        for id_, one in self._known.items():
            if one.gone_at is None and id_ not in picture.nodes:
                one.gone_at = now

    def _see(self, id_: str, picture: Picture) -> None:
        one = self._known.setdefault(id_, Evacuation())
        one.pods |= {pod.id: pod for pod in picture.pods_on(id_) if not pod.daemon}
        while len(self._known) > MOST_NODES:
            self._known.popitem(last=False)

    def pods_of(self, id_: str) -> Mapping[str, PodRow]:
        """Pods that are or were on the node since it was interrupted, as they were there."""
        known = self._known.get(id_)
        return known.pods if known else {}

    def gone_at(self, id_: str) -> float | None:
        """When the node was gone; None while it is there, and when that was not seen."""
        known = self._known.get(id_)
        return known.gone_at if known else None
