"""What the pods of removed machines certainly need beside the other nodes: a lower bound. Pure.

A simulation plans the whole cluster, and most simulations of consolidation find that nothing is saved. Pods that have
no room on any other node need a new machine, whatever is planned. Where the cheapest machine for them alone costs as
much as the machines that would go, a simulation can only confirm it. The bound reads room only: labels, taints,
topology and pods that wait can make a removal dearer, never cheaper. What may go wrong: the planner lets a moved pod
use more room than ``_room`` knows of. A property test compares decisions with the bound and without it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from shared.domain.nodes import Node
from shared.domain.resources import CPU, MEMORY, PODS, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import ENDED, Pod, is_reschedulable
from shared.domain.workloads.recommendations import created_anew
from shared.solver.encode import Amounts, ResourceAxis, TypeTable
from shared.solver.pod_classes import effective_requests
from shared.solver.pools.templates import PoolTemplate, usable_templates

if TYPE_CHECKING:
    from shared.disruption.records import Candidate

_AXIS = ResourceAxis([{CPU: 0, MEMORY: 0, PODS: 0}])
"""Other resources are not looked at."""
NO_TYPE = 2**62
"""The price of a machine that no pool can buy."""
SPARE = 1000
"""So many nodes that are gone stay known, beside as many as there are."""


class _Known(NamedTuple):
    node: Node
    pods: Sequence[Pod]
    room: Amounts


_known: dict[str, _Known] = {}
"""Node name -> its room, with the records from which it was worked out: what did not change is the same object."""


class Leftover:
    """Rooms and prices of one snapshot, read once for all removals of a pass. Copies of a ``World`` share it."""

    __slots__ = ("_of", "_offers", "_places", "_rooms", "_slots")

    def __init__(self) -> None:
        self._of: Snapshot | None = None
        self._places: dict[str, int] = {}
        self._rooms: Amounts = np.zeros((3, 0), dtype=np.int64)
        self._slots: dict[bytes, Amounts] = {}
        self._offers: list[tuple[Amounts, Amounts]] = []

    def least_price(self, snapshot: Snapshot, candidates: Iterable[Candidate]) -> int:
        """Micro-USD per hour that one machine for all pods which find no room elsewhere costs at least; 0 when all may
        find room, ``NO_TYPE`` when no pool has such a machine."""
        if self._of is not snapshot:
            self._read(snapshot)
        going = list(candidates)
        moving = [pod for one in going for pod in one.pods if is_reschedulable(pod)]
        if not moving:
            return 0
        own = [self._places[one.node.name] for one in going if one.node.name in self._places]
        asked = _AXIS.matrix([effective_requests(created_anew(pod).requests) for pod in moving])
        return max(map(self._price, self._needs(asked, own)), default=0)

    def _needs(self, asked: Amounts, own: list[int]) -> Iterable[Amounts]:
        """Amounts that a new machine must hold, each for itself. ``asked``: [pods, resources]."""
        kinds, kind_of = np.unique(asked, axis=0, return_inverse=True)
        alone = np.zeros(len(kinds), dtype=np.bool_)
        for at, kind in enumerate(kinds):
            slots = self._slots_for(kind)
            left = int(slots[-1]) - int(slots[own].sum())
            alone[at] = left == 0
            more = int((asked >= kind).all(axis=1).sum()) - left
            if more > 0:
                yield more * kind
        if alone.any():
            yield asked[alone[kind_of.reshape(-1)]].sum(axis=0)

    def _slots_for(self, kind: Amounts) -> Amounts:
        """[nodes + 1]: how many such pods each node has room for, and the sum."""
        at = kind.tobytes()
        found = self._slots.get(at)
        if found is None:
            read = kind > 0
            each = (self._rooms[read] // kind[read][:, np.newaxis]).min(axis=0, initial=2**31)
            found = self._slots[at] = np.append(each, each.sum())
        return found

    def _price(self, need: Amounts) -> int:
        """Of the cheapest type that holds it."""
        prices = (
            int(price[fits[0]])
            for room, price in self._offers
            if (fits := np.flatnonzero((room >= need).all(axis=1))).size
        )
        return min(prices, default=NO_TYPE)

    def _read(self, snapshot: Snapshot) -> None:
        self._of, self._slots = snapshot, {}
        pods = _staying(snapshot.pods)
        if len(_known) > 2 * len(snapshot.nodes) + SPARE:
            _known.clear()
        open_ = [node for node in snapshot.nodes if _takes_pods(node)]
        self._places = {node.name: at for at, node in enumerate(open_)}
        rooms = [_room(node, pods.get(node.name, ())) for node in open_]
        self._rooms = np.array(rooms, dtype=np.int64).reshape(len(rooms), len(_AXIS.names)).T
        table = TypeTable.of(
            snapshot.catalogue, _AXIS, snapshot.unavailable, snapshot.shortages
        )
        self._offers = [_offers(one, snapshot) for one in usable_templates(snapshot, table)[0]]


def _staying(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by node. Virtual pods move in every simulation, so their room may be free."""
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node_name and not pod.virtual and pod.phase not in ENDED:
            found[pod.node_name].append(pod)
    return found


def _takes_pods(node: Node) -> bool:
    """A removal that needs a node which is not initialised yet is refused (CON-03)."""
    closed = node.terminating or node.unschedulable
    return not closed and (node.is_initialized or not node.is_managed)


def _room(node: Node, pods: Sequence[Pod]) -> Amounts:
    """Never below zero. Coming daemon pods are not subtracted."""
    known = _known.get(node.name)
    if known is not None and known.node is node and _same(known.pods, pods):
        return known.room
    used = sum_of(effective_requests(pod.requests) for pod in pods)
    room = np.maximum(_AXIS.vector(node.allocatable) - _AXIS.vector(used), 0)
    _known[node.name] = _Known(node, pods, room)
    return room


def _same(before: Sequence[Pod], now: Sequence[Pod]) -> bool:
    return len(before) == len(now) and all(map(is_, before, now))


def _offers(template: PoolTemplate, snapshot: Snapshot) -> tuple[Amounts, Amounts]:
    """([types, resources], [types]): what pods may use, and the lowest price; cheapest first."""
    table = template.table
    capacities = {
        kind
        for kind, allowed in zip(
            table.capacity_types, table.capacity_mask(template.requirements), strict=True
        )
        if allowed
    }
    found = []
    for index in template.types.tolist():
        kind = table.types[index]
        prices = [
            offering.price_micro_usd_per_hour
            for offering in kind.offerings
            if offering.zone in template.zone_names
            and offering.capacity_type in capacities
            and (offering.capacity_type, kind.name, offering.zone) not in snapshot.unavailable
        ]
        if prices:
            found.append((min(prices), index))
    found.sort()
    rows = [index for _, index in found]
    return template.available[rows], np.array([price for price, _ in found], dtype=np.int64)
