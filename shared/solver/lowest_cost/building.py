"""Builds the machines of a packing as open machines, with the pods that ``Admitter`` admits.

Pods without topology rules come first, all of a class at once. The others are placed one by one, alternating between
zones, because a spread rule refuses a zone that has more pods than the others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shared.domain import labels as keys
from shared.domain.requirements import Requirement, Requirements
from shared.solver.encode import Amounts, Indices
from shared.solver.lowest_cost.demand import Batch, Demand
from shared.solver.lowest_cost.problem import ANY_ZONE, Pattern
from shared.solver.lowest_cost.room import prices
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

_TYPES_UNDER_LIMITS = 15
"""With limits a machine lists only so many types, because it counts against them with its largest type."""
_MAX_REFUSALS = 4
"""Machines of one zone that are tried per pod: a zone that is full refuses on each of them."""


class Site(Protocol):
    """The placement in which machines are built."""

    machines: list[OpenMachine]

    def small_types(self, template: PoolTemplate, types: Indices) -> Indices: ...

    def is_single(self, pods: PodClass) -> bool: ...
    def open_machine(self, machine: OpenMachine, pods: PodClass, uids: list[str]) -> int: ...
    def fill_machine(self, index: int, pods: PodClass, uids: list[str]) -> int: ...


@dataclass(slots=True, eq=False)
class Blueprint:
    """One machine of a packing, before it is built."""

    requirements: Requirements
    content: Amounts
    portions: list[tuple[PodClass, int, list[str]]] = field(default_factory=list)
    """(class, planned zone, UIDs)."""
    index: int | None = None
    """Index of the open machine; None until it takes its first pod."""


class Building:
    """Builds the machines of one pool."""

    def __init__(self, site: Site, template: PoolTemplate, demand: Demand) -> None:
        self._site = site
        self._table = template.table
        self._template = template
        self._demand = demand
        self._waiting = [
            deque((batch, uid) for batch in members for uid in batch.uids)
            for members in demand.members
        ]
        self._pinned: dict[tuple[int, int], Requirements] = {}

    def build(self, patterns: list[Pattern]) -> set[str]:
        """Builds these machines and returns the UIDs of the pods that they took."""
        blueprints = [self._blueprint(p) for p in patterns for _ in range(p.copies)]
        placed: set[str] = set()
        single: dict[PodClass, list[tuple[int, Blueprint, list[str]]]] = defaultdict(list)
        for blueprint in blueprints:
            for pods, zone, uids in blueprint.portions:
                if self._site.is_single(pods):
                    single[pods].append((zone, blueprint, uids))
                else:
                    placed.update(uids[: self._add(blueprint, pods, uids)])
        order = sorted(single, key=lambda one: one.index)
        # Placing one class may open a zone for another (pod affinity), so classes repeat until nothing changes.
        before = -1
        while len(placed) > before:
            before = len(placed)
            for pods in order:
                placed.update(self._one_by_one(pods, single[pods], placed))
        return placed

    def _blueprint(self, pattern: Pattern) -> Blueprint:
        portions: dict[tuple[PodClass, int], list[str]] = {}
        content = np.zeros(len(self._table.axis.names), dtype=np.int64)
        for row, count in zip(pattern.classes, pattern.counts, strict=True):
            for batch, uid in self._next(int(row), int(count)):
                portions.setdefault((batch.pods, batch.zone), []).append(uid)
                content += batch.pods.requests
        zones = {zone for _, zone in portions} - {ANY_ZONE}
        zone = min(zones, default=ANY_ZONE)
        kind = int(self._demand.offers.kinds[pattern.offer])
        listed = [(pods, at, uids) for (pods, at), uids in portions.items()]
        listed.sort(key=lambda portion: (portion[0].index, portion[1]))
        return Blueprint(self._requirements(zone, kind), content, listed)

    def _next(self, row: int, count: int) -> Iterator[tuple[Batch, str]]:
        waiting = self._waiting[row]
        for _ in range(min(count, len(waiting))):
            yield waiting.popleft()

    def _requirements(self, zone: int, kind: int) -> Requirements:
        """The pool's requirements in this zone, without spot when the packing chose on-demand."""
        if (zone, kind) not in self._pinned:
            found = self._template.requirements
            if zone != ANY_ZONE:
                found = found.add(_is(keys.ZONE, self._table.zones[zone]))
            allowed = set(np.array(self._table.capacity_types)[self._table.capacity_mask(found)])
            if self._table.capacity_types[kind] == keys.ON_DEMAND and keys.SPOT in allowed:
                found = found.add(_is(keys.CAPACITY_TYPE, *sorted(map(str, allowed - {keys.SPOT}))))
            self._pinned[zone, kind] = found
        return self._pinned[zone, kind]

    def _add(self, blueprint: Blueprint, pods: PodClass, uids: list[str]) -> int:
        """Adds pods from the front of ``uids`` to the machine. Returns how many."""
        if blueprint.index is not None:
            return self._site.fill_machine(blueprint.index, pods, uids)
        if self._template.nodes_exhausted:
            return 0
        index = len(self._site.machines)
        types = self._template.sets.of_rows(self._types(blueprint))
        machine = OpenMachine.empty(self._template, index + 1, blueprint.requirements, types)
        placed = self._site.open_machine(machine, pods, uids)
        blueprint.index = index if placed else None
        return placed

    def _types(self, blueprint: Blueprint) -> Indices:
        """The machine's types: within the size limit if one holds the content; with pool limits, the cheapest
        that do (SCH-100)."""
        template = self._template
        if template.remaining is None:
            small = self._site.small_types(template, template.types)
            holds = (template.available[small] >= blueprint.content).all(axis=1).any()
            return small if holds else template.types
        within = template.types[template.within_limits()[template.types]]
        room = template.available[within] >= blueprint.content
        holding: Indices = within[room.all(axis=1)]
        small = self._site.small_types(template, holding)
        holding = small if small.size else holding
        if template.requirements.asks_for_values:
            return holding
        order = np.argsort(prices(template, blueprint.requirements, holding), kind="stable")
        return np.sort(holding[order[:_TYPES_UNDER_LIMITS]])

    def _one_by_one(
        self, pods: PodClass, portions: list[tuple[int, Blueprint, list[str]]], done: set[str]
    ) -> list[str]:
        """Places pods of one class, each in the zone that got the fewest so far, until every zone refuses."""
        slots: dict[int, deque[tuple[Blueprint, str]]] = defaultdict(deque)
        for zone, blueprint, uids in portions:
            slots[zone].extend((blueprint, uid) for uid in uids if uid not in done)
        placed = dict.fromkeys(sorted(slots), 0)
        found: list[str] = []
        while True:
            for zone in sorted(placed, key=lambda z: (placed[z], z)):
                uid = self._first_admitted(pods, slots[zone])
                if uid is not None:
                    placed[zone] += 1
                    found.append(uid)
                    break
            else:
                return found

    def _first_admitted(self, pods: PodClass, slots: deque[tuple[Blueprint, str]]) -> str | None:
        """The UID of a pod that one of the next machines of a zone took; None when all refuse."""
        for _ in range(min(len(slots), _MAX_REFUSALS)):
            blueprint, uid = slots[0]
            if self._add(blueprint, pods, [uid]):
                slots.popleft()
                return uid
            slots.rotate(-1)
        return None


def _is(key: str, *values: str) -> Requirement:
    return Requirement(key, False, frozenset(values))
