"""Planned machines become open claims, pod by pod, as far as they are admitted.

Pods without topology rules come first, all of a class at once. The others come one by one, the zones
in turn: a spread rule lets no zone run ahead.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from shared.domain import labels as keys
from shared.domain.requirements import Requirement, Requirements
from shared.solver.encode import NO_PRICE, Amounts, Indices
from shared.solver.lowest_cost.demand import Batch, Demand
from shared.solver.lowest_cost.problem import ANY_ZONE, Pattern
from shared.solver.placement.planned_machines import OpenClaim
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

_TYPES_UNDER_LIMITS = 15
"""A machine counts against its pool's limits with its largest type, so there the list is short."""


class Site(Protocol):
    """Where machines are built."""

    claims: list[OpenClaim]

    def small_types(self, template: PoolTemplate, types: Indices) -> Indices: ...

    def is_single(self, pods: PodClass) -> bool: ...
    def open_claim(self, claim: OpenClaim, pods: PodClass, uids: list[str]) -> int: ...
    def fill_claim(self, index: int, pods: PodClass, uids: list[str]) -> int: ...


@dataclass(slots=True, eq=False)
class Blueprint:
    """One planned machine."""

    requirements: Requirements
    content: Amounts
    portions: list[tuple[PodClass, int, list[str]]] = field(default_factory=list)
    """Class, zone it was planned for, UIDs."""
    index: int | None = None
    """Of its claim, once it has one."""


class Building:
    """The machines of one pool."""

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
        """The UIDs that found a place."""
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
        """The pool's, in this zone; not on spot when on-demand capacity was planned."""
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
        """How many of ``uids``, from the front, the machine took."""
        if blueprint.index is not None:
            return self._site.fill_claim(blueprint.index, pods, uids)
        if self._template.nodes_exhausted:
            return 0
        index = len(self._site.claims)
        claim = OpenClaim(
            template=self._template,
            hostname=f"hostname-placeholder-{index + 1:04d}",
            requirements=blueprint.requirements,
            types=self._template.sets.of_rows(self._types(blueprint)),
            used=np.zeros_like(blueprint.content),
        )
        placed = self._site.open_claim(claim, pods, uids)
        blueprint.index = index if placed else None
        return placed

    def _types(self, blueprint: Blueprint) -> Indices:
        """Those of the wanted size if they hold the content; under limits only the cheapest that
        do: SCH-100."""
        template, table = self._template, self._table
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
        zones = table.zone_mask(blueprint.requirements, template.zones)
        kinds = table.capacity_mask(blueprint.requirements)
        prices = table.price[holding][:, zones][:, :, kinds].min(axis=(1, 2), initial=NO_PRICE)
        order = np.argsort(prices, kind="stable")
        return np.sort(holding[order[:_TYPES_UNDER_LIMITS]])

    def _one_by_one(
        self, pods: PodClass, portions: list[tuple[int, Blueprint, list[str]]], done: set[str]
    ) -> list[str]:
        """The next pod goes to the zone that got the fewest. Ends when every zone refuses; what
        other classes place may open one later."""
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
        """Tries the next machines of a zone, a few at most: a zone that is full refuses on each."""
        for _ in range(min(len(slots), _MOST_TRIES)):
            blueprint, uid = slots[0]
            if self._add(blueprint, pods, [uid]):
                slots.popleft()
                return uid
            slots.rotate(-1)
        return None


_MOST_TRIES = 4


def _is(key: str, *values: str) -> Requirement:
    return Requirement(key, False, frozenset(values))
