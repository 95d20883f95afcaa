"""Removals that certainly save nothing, found without a plan. Pure.

A simulation plans the whole cluster, and most simulations of consolidation find that nothing is saved. Pods that have
no room on any other node need a new machine, whatever is planned. Where the cheapest machine for them alone costs as
much as the machines that would go, or where a starting machine would take one of them first, a simulation can only
refuse, too. What may go wrong: the planner finds room that ``rooms`` does not know of. A property test compares
decisions with these bounds and without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from shared.disruption.removals.prices import Prices
from shared.disruption.removals.rooms import Kind, Rooms, kind_of
from shared.disruption.removals.unready import Unready
from shared.domain.requirements import Requirements
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import Noted
from shared.domain.workloads.pods import Pod, is_reschedulable
from shared.solver.encode import Amounts

if TYPE_CHECKING:
    from shared.disruption.records import Candidate


class Bounds:
    """What is read of one snapshot, for all removals of a pass. Copies of a ``World`` share it."""

    __slots__ = ("_kinds", "_of", "_prices", "_rooms", "_unready")

    def __init__(self) -> None:
        self._of: Snapshot | None = None

    def __reduce__(self) -> tuple[type[Bounds], tuple[()]]:
        """Another process reads its own."""
        return Bounds, ()

    def costs(self, snapshot: Snapshot, candidates: Iterable[Candidate], most: int) -> bool:
        """Does one machine for all pods which find no room elsewhere certainly cost ``most`` or more? In micro-USD per
        hour; such a machine that no pool can buy costs more than anything."""
        self._read(snapshot)
        going = list(candidates)
        asked: Counter[Kind] = Counter()
        for one in going:
            asked.update(_asked.one(one.node.name, one.pods))
        needs = self._needs(asked, self._own(going))
        return any(self._prices.least(*need) >= most for need in needs)

    def unready(self, snapshot: Snapshot, candidates: Sequence[Candidate]) -> str:
        """The name of a starting machine that would take a pod which no ready node has room for; empty: of none this is
        certain."""
        self._read(snapshot)
        own = self._own(candidates)
        for pod in (pod for one in candidates for pod in _moving(one)):
            if self._left(self._kind(pod), own) == 0 and (name := self._unready.taking(pod)):
                return name
        return ""

    def _needs(
        self, asked: Counter[Kind], own: list[int]
    ) -> Iterator[tuple[Amounts, set[Requirements]]]:
        """(amounts, requirements) that the new machine must meet; each of them holds for itself. What excludes most
        comes first."""
        left = {kind: self._left(kind, own) for kind in asked}
        alone = [kind for kind in asked if not left[kind]]
        if alone:
            total = sum(asked[kind] * np.array(kind.amounts, dtype=np.int64) for kind in alone)
            yield np.asarray(total), {kind.wanted for kind in alone}
        for kind in (one for one in asked if left[one]):
            alike = sum(number for one, number in asked.items() if _is_as_large(one, kind))
            if alike > left[kind]:
                amounts = np.array(kind.amounts, dtype=np.int64)
                yield (alike - left[kind]) * amounts, {kind.wanted}

    def _left(self, kind: Kind, own: list[int]) -> int:
        """For how many such pods there may be room on the other nodes."""
        slots = self._rooms.slots(kind)
        return int(slots[-1]) - int(slots[own].sum())

    def _own(self, candidates: Iterable[Candidate]) -> list[int]:
        names = (one.node.name for one in candidates)
        return [self._rooms.places[name] for name in names if name in self._rooms.places]

    def _kind(self, pod: Pod) -> Kind:
        found = self._kinds.get(pod.uid)
        if found is None:
            found = self._kinds[pod.uid] = kind_of(pod)
        return found

    def _read(self, snapshot: Snapshot) -> None:
        if self._of is not snapshot:
            self._of = snapshot
            _asked.forget_gone(len(snapshot.nodes))
            self._rooms, self._prices = Rooms(snapshot), Prices(snapshot)
            self._unready = Unready(snapshot)
            self._kinds: dict[str, Kind] = {}


def _is_as_large(one: Kind, kind: Kind) -> bool:
    """Whether each node that has room for one of these has room for one of ``kind``."""
    if kind.wanted and one.wanted != kind.wanted:
        return False
    return all(mine >= other for mine, other in zip(one.amounts, kind.amounts, strict=True))


def _kinds(pods: Sequence[Pod]) -> Counter[Kind]:
    return Counter(kind_of(pod) for pod in pods if is_reschedulable(pod))


_asked = Noted(_kinds)
"""How many pods of each kind move from a node."""


def _moving(candidate: Candidate) -> Iterator[Pod]:
    return (pod for pod in candidate.pods if is_reschedulable(pod))
