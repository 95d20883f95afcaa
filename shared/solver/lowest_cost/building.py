"""Builds the machines of a packing as open machines, with the pods that ``Admitter`` admits.

Pods with topology rules come first, one by one, alternating between zones, because a spread rule refuses a zone that
has more pods than the others. Of them those come first whose rules by host name count other pods: a machine that has
some of these already may refuse them, while nothing refuses the pods that are counted. Pods without rules come last,
all of a class at once: until then a pod that is refused where it was to go may change places with one of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from shared.domain import labels as keys
from shared.domain.requirements import Requirement, Requirements
from shared.solver.encode import Amounts, Indices
from shared.solver.lowest_cost.demand import Batch, Demand
from shared.solver.lowest_cost.problem import ANY_ZONE, Pattern
from shared.solver.lowest_cost.room import prices
from shared.solver.lowest_cost.spread import Pins
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.pod_classes import PodClass
from shared.solver.pools.templates import PoolTemplate

_TYPES_UNDER_LIMITS = 15
"""With limits a machine lists only so many types, because it counts against them with its largest type."""
_MAX_REFUSALS = 4
"""Machines of one zone that are tried per pod: a zone that is full refuses on each of them."""
_MOST_EXCHANGES = 60
"""Machines on which a refused pod may change places, of those that are tried."""


Place = tuple[int, Pins]
"""Zone (or ANY_ZONE) and labels."""
Share = tuple["Blueprint", PodClass, list[str]]
"""(machine, class, UIDs of pods of this class that are to go there)."""


class Packed(NamedTuple):
    """Machines of one pool with the pods for them."""

    demand: Demand
    patterns: list[Pattern]
    pins: Pins = ()


class Site(Protocol):
    """The placement in which machines are built."""

    machines: list[OpenMachine]

    def small_types(self, template: PoolTemplate, types: Indices) -> Indices: ...

    def is_single(self, pods: PodClass) -> bool: ...
    def counts_others(self, pods: PodClass) -> bool: ...
    def open_machine(self, machine: OpenMachine, pods: PodClass, uids: list[str]) -> int: ...
    def fill_machine(self, index: int, pods: PodClass, uids: list[str]) -> int: ...


@dataclass(slots=True, eq=False)
class Blueprint:
    """One machine of a packing, before it is built."""

    requirements: Requirements
    content: Amounts
    portions: list[tuple[PodClass, Place, list[str]]] = field(default_factory=list)
    """(class, planned place, UIDs)."""
    index: int | None = None
    """Index of the open machine; None until it takes its first pod."""


class Building:
    """Builds the machines of one pool."""

    def __init__(self, site: Site, template: PoolTemplate) -> None:
        self._site = site
        self._table = template.table
        self._template = template
        self._pinned: dict[tuple[Place, int], Requirements] = {}

    def build(self, packings: Sequence[Packed]) -> set[str]:
        """Builds these machines and returns the UIDs of the pods that they took."""
        blueprints = [one for packed in packings for one in self._blueprints(packed)]
        placed: set[str] = set()
        single: dict[PodClass, list[tuple[Place, Blueprint, list[str]]]] = defaultdict(list)
        others: list[Share] = []
        for blueprint in blueprints:
            for pods, place, uids in blueprint.portions:
                if self._site.is_single(pods):
                    single[pods].append((place, blueprint, uids))
                else:
                    others.append((blueprint, pods, uids))
        order = sorted(single, key=lambda one: (not self._site.counts_others(one), one.index))
        # Placing one class may open a zone for another (pod affinity), so classes repeat until nothing changes.
        before = -1
        while len(placed) > before:
            before = len(placed)
            for pods in order:
                placed.update(self._one_by_one(pods, single[pods], placed))
                if self._site.counts_others(pods):
                    placed.update(self._exchanged(pods, single[pods], others, placed))
        for pods in order:
            placed.update(self._exchanged(pods, single[pods], others, placed))
        for blueprint, pods, uids in others:
            if uids:
                placed.update(uids[: self._add(blueprint, pods, uids)])
        return placed

    def _blueprints(self, packed: Packed) -> Iterator[Blueprint]:
        waiting = [
            deque((batch, uid) for batch in members for uid in batch.uids)
            for members in packed.demand.members
        ]
        for pattern in packed.patterns:
            for _ in range(pattern.copies):
                yield self._blueprint(packed, pattern, waiting)

    def _blueprint(
        self, packed: Packed, pattern: Pattern, waiting: list[deque[tuple[Batch, str]]]
    ) -> Blueprint:
        portions: dict[tuple[PodClass, int], list[str]] = {}
        content = np.zeros(len(self._table.axis.names), dtype=np.int64)
        for row, count in zip(pattern.classes, pattern.counts, strict=True):
            for _ in range(min(int(count), len(waiting[row]))):
                batch, uid = waiting[row].popleft()
                portions.setdefault((batch.pods, batch.zone), []).append(uid)
                content += batch.pods.requests
        zones = {zone for _, zone in portions} - {ANY_ZONE}
        zone = min(zones, default=ANY_ZONE)
        kind = int(packed.demand.offers.kinds[pattern.offer])
        listed = [(pods, (at, packed.pins), uids) for (pods, at), uids in portions.items()]
        listed.sort(key=lambda portion: (portion[0].index, portion[1]))
        return Blueprint(self._requirements((zone, packed.pins), kind), content, listed)

    def _requirements(self, place: Place, kind: int) -> Requirements:
        """The pool's requirements in this place, without spot when the packing chose on-demand."""
        if (place, kind) not in self._pinned:
            found = self._template.requirements
            if place[0] != ANY_ZONE:
                found = found.add(_is(keys.ZONE, self._table.zones[place[0]]))
            for key, value in place[1]:
                found = found.add(_is(key, value))
            allowed = set(np.array(self._table.capacity_types)[self._table.capacity_mask(found)])
            if self._table.capacity_types[kind] == keys.ON_DEMAND and keys.SPOT in allowed:
                found = found.add(_is(keys.CAPACITY_TYPE, *sorted(map(str, allowed - {keys.SPOT}))))
            self._pinned[place, kind] = found
        return self._pinned[place, kind]

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
        self,
        pods: PodClass,
        portions: list[tuple[Place, Blueprint, list[str]]],
        done: set[str],
    ) -> list[str]:
        """Places pods of one class, each in the place that got the fewest so far, until every place refuses."""
        slots: dict[Place, deque[tuple[Blueprint, str]]] = defaultdict(deque)
        for place, blueprint, uids in portions:
            slots[place].extend((blueprint, uid) for uid in uids if uid not in done)
        placed = dict.fromkeys(sorted(slots), 0)
        found: list[str] = []
        while True:
            for place in sorted(placed, key=lambda one: (placed[one], one)):
                uid = self._first_admitted(pods, slots[place])
                if uid is not None:
                    placed[place] += 1
                    found.append(uid)
                    break
            else:
                return found

    def _exchanged(
        self,
        pods: PodClass,
        portions: list[tuple[Place, Blueprint, list[str]]],
        others: list[Share],
        done: set[str],
    ) -> list[str]:
        """Places refused pods of one class where pods of the same size without rules were to go, which get the places
        of the refused ones in ``others``. Returns the UIDs of the placed pods."""
        refused = [(blueprint, uid) for _, blueprint, uids in portions for uid in uids]
        refused = [(blueprint, uid) for blueprint, uid in refused if uid not in done]
        equal = (
            [one for one in others if (one[1].requests == pods.requests).all()] if refused else []
        )
        found: list[str] = []
        for blueprint, uid in refused:
            given_up = self._given_up(pods, uid, equal)
            if given_up is None:
                break
            other, theirs = given_up
            others.append((blueprint, other, [theirs]))
            found.append(uid)
        return found

    def _given_up(
        self, pods: PodClass, uid: str, equal: list[Share]
    ) -> tuple[PodClass, str] | None:
        """(class, UID) of the pod whose place the pod took; None when all these places refuse."""
        for blueprint, other, uids in [one for one in equal if one[2]][:_MOST_EXCHANGES]:
            if self._add(blueprint, pods, [uid]):
                return other, uids.pop()
        return None

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
