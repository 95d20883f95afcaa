"""Karpenter's consolidation on arrays: the reference of the consolidation benchmark.

Emptiness, multi-node and single-node consolidation, each as in ``shared.disruption``. The simulation is hundreds of
times faster than the planner, because it omits what the benchmark's clusters do not have: spot, volumes, taints,
several pools. Pods go to nodes first-fit in the order of the nodes' names, the largest pods first. The remaining pods
go to one new node of the cheapest type that holds them, if it costs strictly less (CON-02..10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shared.disruption.global_consolidation.picture import ClusterArrays
from shared.domain.snapshot import Snapshot
from shared.solver.encode import LARGEST, NO_PRICE, Amounts, Indices, Mask, ResourceAxis, TypeTable
from shared.solver.lowest_cost.rules import Rules
from shared.solver.pools.templates import usable_templates

MOST_NODES = 100


class Step(NamedTuple):
    """One command that was carried out."""

    method: str
    nodes: int
    moved_pods: int
    cost_micro_usd_per_hour: int
    """Of the cluster afterwards."""


class Move(NamedTuple):
    """A possible command: the new nodes of its pods, and the replacement."""

    load: tuple[tuple[int, Indices, Amounts], ...]
    """(class, nodes, pods per node)"""
    new: tuple[int, int, int, Amounts] | None
    """(price, type, zone, pods by class) of the replacement; None without one."""


@dataclass(slots=True, eq=False)
class Cluster:
    """The state. Rows are nodes, sorted by name; new nodes come last."""

    price: Amounts
    kind: Indices
    zone: Indices
    room: Amounts
    load: Amounts
    may: Mask
    """[nodes, classes]"""
    alive: Mask
    arrays: ClusterArrays
    types: Mask
    """[classes, types]"""
    size: Amounts
    prices: Amounts
    """[types, zones]"""
    zones_of: Mask
    """[classes, zones]"""
    percent: int
    """The budget: percent of the nodes."""
    simulations: int = 0

    def cost(self) -> int:
        return int(self.price[self.alive].sum())

    def step(self) -> Step | None:
        """Carries out the next command and returns it; None when there is none."""
        most = math.ceil(int(self.alive.sum()) * self.percent / 100)
        pods = self.load.sum(axis=1)
        empty = np.flatnonzero(self.alive & (pods == 0))[:most]
        if len(empty):
            return self._apply("emptiness", empty, Move((), None))
        rows = np.flatnonzero(self.alive)
        rows = rows[np.argsort(-(self.price[rows] / (1 + pods[rows])), kind="stable")]
        return self._multi(rows[: min(most, MOST_NODES)]) or self._single(rows)

    def _multi(self, rows: Indices) -> Step | None:
        low, high, best = 2, len(rows), None
        while low <= high:
            middle = (low + high) // 2
            move = self._simulate(rows[:middle])
            if move is not None:
                best, low = (rows[:middle], move), middle + 1
            else:
                high = middle - 1
        return self._apply("multi-node", *best) if best else None

    def _single(self, rows: Indices) -> Step | None:
        for row in rows:
            move = self._simulate(np.array([row]))
            if move is not None:
                return self._apply("single-node", np.array([row]), move)
        return None

    def _simulate(self, rows: Indices) -> Move | None:
        self.simulations += 1
        staying = self.alive.copy()
        staying[rows] = False
        room = self.room.copy()
        done, left = [], np.zeros(self.load.shape[1], dtype=np.int64)
        zones = np.ones(self.prices.shape[1], dtype=np.bool_)
        for one, zone, count in self._queue(rows):
            nodes, taken = self._fill(one, zone, count, staying, room)
            room[nodes] -= taken[:, None] * self.arrays.requests[one]
            done.append((one, nodes, taken))
            missing = count - int(taken.sum())
            if missing:
                left[one] += missing
                zones &= self.zones_of[one]
                if self.arrays.stays_in_zone[one]:
                    zones &= np.arange(len(zones)) == zone
                if len(rows) == 1 and self._cheapest(left, zones, rows) is None:
                    return None  # further pods cannot make the replacement cheaper
        if not left.any():
            return Move(tuple(done), None)
        new = self._cheapest(left, zones, rows)
        return None if new is None else Move(tuple(done), new)

    def _queue(self, rows: Indices) -> list[tuple[int, int, int]]:
        """(class, zone or -1, number of pods), sorted by CPU and memory, descending."""
        found: dict[tuple[int, int], int] = {}
        for row in rows:
            zone = int(self.zone[row])
            for one in np.flatnonzero(self.load[row]):
                at = (int(one), zone if self.arrays.stays_in_zone[one] else -1)
                found[at] = found.get(at, 0) + int(self.load[row, one])
        requests = self.arrays.requests
        order = sorted(found, key=lambda at: (-requests[at[0], 0], -requests[at[0], 1], at))
        return [(one, zone, found[one, zone]) for one, zone in order]

    def _fill(
        self, one: int, zone: int, count: int, staying: Mask, room: Amounts
    ) -> tuple[Indices, Amounts]:
        """Places equal pods first-fit: (nodes, pods per node)."""
        open_ = staying & self.may[:, one]
        if zone >= 0:
            open_ &= self.zone == zone
        request = self.arrays.requests[one]
        open_ &= (room >= request).all(axis=1)
        nodes = open_.nonzero()[0]
        fits = (room[nodes] // np.maximum(request, 1)).min(axis=1, initial=count)
        most = int(self.arrays.most[one])
        if most < LARGEST:
            fits = np.maximum(np.minimum(fits, most - self.load[nodes, one]), 0)
        ends = fits.cumsum()
        taken = np.minimum(np.maximum(count - (ends - fits), 0), fits)
        used = taken.nonzero()[0]
        return nodes[used], taken[used]

    def _cheapest(
        self, left: Amounts, zones: Mask, rows: Indices
    ) -> tuple[int, int, int, Amounts] | None:
        """The cheapest new node for these pods, if it is strictly cheaper than the old ones."""
        classes = np.flatnonzero(left)
        if (left[classes] > self.arrays.most[classes]).any() or not zones.any():
            return None
        usable = np.asarray(self.types[classes].all(axis=0))
        usable &= np.asarray((self.size >= left @ self.arrays.requests).all(axis=1))
        prices = np.where(usable[:, None] & zones[None, :], self.prices, NO_PRICE)
        kind, zone = np.unravel_index(int(prices.argmin()), prices.shape)
        price = int(prices[kind, zone])
        if price >= int(self.price[rows].sum()):
            return None
        same = self.price[rows][self.kind[rows] == kind]
        if len(rows) > 1 and len(same) and price >= int(same.min()):
            return None
        return price, int(kind), int(zone), left

    def _apply(self, method: str, rows: Indices, move: Move) -> Step:
        moved = int(self.load[rows].sum())
        self.alive[rows] = False
        self.load[rows] = 0
        for one, nodes, taken in move.load:
            self.load[nodes, one] += taken
            self.room[nodes] -= taken[:, None] * self.arrays.requests[one]
        if move.new is not None:
            self._add(*move.new)
        return Step(method, len(rows), moved, self.cost())

    def _add(self, price: int, kind: int, zone: int, load: Amounts) -> None:
        self.price = np.append(self.price, price)
        self.kind = np.append(self.kind, kind)
        self.zone = np.append(self.zone, zone)
        self.alive = np.append(self.alive, True)
        self.load = np.vstack([self.load, load])
        self.room = np.vstack([self.room, self.size[kind] - load @ self.arrays.requests])
        self.may = np.vstack([self.may, self.types[:, kind] & self.zones_of[:, zone]])


def cluster_of(arrays: ClusterArrays, snapshot: Snapshot, percent: int) -> Cluster:
    """A cluster whose nodes are all candidates, in one pool without daemon sets."""
    axis = ResourceAxis([])
    table = TypeTable.of(snapshot.catalogue, axis, snapshot.unavailable)
    (template,), _ = usable_templates(snapshot, table)
    rules = Rules(best_effort=False)
    allowed = [rules.allowed(one, template) for one in arrays.classes]
    order = sorted(range(len(arrays.candidates)), key=lambda i: arrays.candidates[i].node.name)
    rows = arrays.at[order]
    machines = [arrays.candidates[i].machine for i in order]
    on_demand = table.capacity_types.index("on-demand")
    size = template.available
    kind = np.array([table.index[m.instance_type] for m in machines], dtype=np.intp)
    return Cluster(
        price=arrays.price[order],
        kind=kind,
        zone=np.array([table.zones.index(m.zone) for m in machines], dtype=np.intp),
        room=arrays.room[rows].copy(),
        load=arrays.load[order].copy(),
        may=np.ascontiguousarray(arrays.may[:, rows].T),
        alive=np.ones(len(order), dtype=np.bool_),
        arrays=arrays,
        percent=percent,
        types=np.array([a.types if a else np.zeros(len(size), np.bool_) for a in allowed]),
        size=size,
        prices=np.where(template.zones[None, :], table.price[:, :, on_demand], NO_PRICE),
        zones_of=np.array(
            [a.zones if a else np.zeros(len(table.zones), np.bool_) for a in allowed]
        ),
    )
