"""Which devices of a node a claim gets: kube-scheduler's structured allocation, first fit with going back.

Works on the planner's records and evaluates CEL as it does, but decides on single devices. Differences from
kube-scheduler: a claim is allocated without regard to the pod's other claims, and the search ends after ``MOST_STEPS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.domain.devices.demands import Alternative, Ask, Rule
from shared.domain.devices.inventory import Inventory, Item, counter_set
from shared.domain.devices.matching import Shape, consumed, count_of
from shared.domain.devices.records import Allocated, Attribute

MOST_STEPS = 20_000


@dataclass
class Chosen:
    """A device for a request. ``request``: its name, or ``request/alternative``."""

    request: str
    ask: int
    item: Item
    allocated: Allocated


@dataclass
class _Search:
    """One alternative on one node: a device for each place, in order."""

    alternative: Alternative
    shape: Shape
    counters: dict[str, dict[str, int]]
    steps: int = 0
    chosen: list[Chosen] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    left: dict[int, dict[str, int]] = field(default_factory=dict)
    """Index of a shared device -> its capacity that is left."""

    def run(self, places: list[int]) -> bool:
        """A device for each of these asks (indices into the alternative's); False when there is none."""
        if not places:
            return True
        at, ask = places[0], self.alternative.asks[places[0]]
        for index in self._candidates(ask):
            self.steps += 1
            if self.steps > MOST_STEPS:
                return False
            before = self._take(at, ask, index)
            if before is None:
                continue
            if self._keeps_rules(at) and self.run(places[1:]):
                return True
            self._give_back(index, ask, before)
        return False

    def _candidates(self, ask: Ask) -> Iterator[int]:
        """Each device once per ask, and exclusive ones once at all."""
        mine = {id(one.item) for one in self.chosen if self.alternative.asks[one.ask] is ask}
        for index in self.shape.suiting(ask.predicate):
            item = self.shape.inventory.free[index]
            if id(item) not in mine and (ask.admin or index not in self.taken):
                yield index

    def _take(self, at: int, ask: Ask, index: int) -> dict[str, int] | None:
        """What it takes of a shared capacity ({} for a whole device); None when it cannot be taken."""
        item = self.shape.inventory.free[index]
        amounts: dict[str, int] = {}
        if not ask.admin:
            if item.device.shared:
                amounts = consumed(ask.predicate, item.driver, item.device) or {}
                there = self.left.setdefault(index, dict(item.device.capacity))
                if any(there[name] < amount for name, amount in amounts.items()):
                    return None
                for name, amount in amounts.items():
                    there[name] -= amount
            elif not self._draw(item, 1):
                return None
            else:
                self.taken.add(index)
        result = Allocated(item.driver, item.pool, item.device.name, ask.admin, amounts)
        self.chosen.append(Chosen(ask.name, at, item, result))
        return amounts

    def _draw(self, item: Item, sign: int) -> bool:
        """Take the device's counters, or give them back; False when too little is left."""
        parts = [
            (self.counters.get(counter_set(item.driver, item.pool, name), {}), counter, amount)
            for name, amounts in item.device.consumes.items()
            for counter, amount in amounts.items()
        ]
        if sign > 0 and any(there.get(counter, 0) < amount for there, counter, amount in parts):
            return False
        for there, counter, amount in parts:
            there[counter] -= sign * amount
        return True

    def _give_back(self, index: int, ask: Ask, amounts: dict[str, int]) -> None:
        item = self.chosen.pop().item
        if ask.admin:
            return
        if item.device.shared:
            for name, amount in amounts.items():
                self.left[index][name] += amount
        else:
            self.taken.discard(index)
            self._draw(item, -1)

    def _keeps_rules(self, at: int) -> bool:
        rules = (rule for rule in self.alternative.rules if at in rule.asks)
        return all(map(self._keeps, rules))

    def _keeps(self, rule: Rule) -> bool:
        values = [_value(rule.attribute, one.item) for one in self.chosen if one.ask in rule.asks]
        if None in values:
            return False
        return len(set(values)) == (len(values) if rule.distinct else 1)


def _value(attribute: str, item: Item) -> Attribute | None:
    name = attribute if "/" in attribute else f"{item.driver}/{attribute}"
    return item.device.attributes.get(name, item.device.versions.get(name))


def allocate(alternatives: list[Alternative], inventory: Inventory) -> list[Chosen] | None:
    """Devices for the first alternative that can be met; None when none can."""
    shape = Shape(inventory)
    for one in alternatives:
        counts = [count_of(ask, shape) for ask in one.asks]
        if None in counts:
            continue
        places = [at for at, count in enumerate(counts) for _ in range(count or 0)]
        counters = {name: dict(amounts) for name, amounts in inventory.counters.items()}
        search = _Search(one, shape, counters)
        if search.run(places):
            return search.chosen
    return None
