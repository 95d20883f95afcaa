"""The id of a plan of a cluster without some of its machines: its UIDs are sorted once. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Set
from itertools import chain

from shared.domain.snapshot import Snapshot
from shared.solver.output import plan_id


class Identities:
    """``snapshot``: the whole cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._machines = _Sorted((one.uid, one.uid or one.name) for one in snapshot.machines)
        self._nodes = _Sorted((one.name, one.uid or one.name) for one in snapshot.nodes)

    def without(self, pods: Iterable[str], machines: Set[str], nodes: Set[str]) -> str:
        """That of a whole plan for these pods, by UID, without the machines of these UIDs and the nodes of these
        names."""
        return plan_id(pods, self._machines.without(machines), self._nodes.without(nodes))


class _Sorted:
    def __init__(self, entries: Iterable[tuple[str, str]]) -> None:
        """(what names it, its text) of each."""
        self._texts: dict[str, list[str]] = defaultdict(list)
        for name, text in entries:
            self._texts[name].append(text)
        self._all = sorted(chain.from_iterable(self._texts.values()))

    def without(self, names: Iterable[str]) -> list[str]:
        """All texts but those of these names, sorted."""
        left = self._all.copy()
        for text in chain.from_iterable(self._texts.get(name, ()) for name in names):
            del left[bisect_left(left, text)]
        return left
