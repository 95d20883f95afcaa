"""Which devices of an inventory suit a predicate, and how many can be had of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

from shared.domain.devices.demands import Alternative, Ask, Predicate, Rule
from shared.domain.devices.inventory import Inventory, Item, counter_set
from shared.domain.devices.records import Attribute, CapacityPolicy, Device
from shared.domain.devices.selectors import Verdict, selects
from shared.domain.expressions import Taint, first_untolerated

PREFERRED = "PreferNoSchedule"


class Shape:
    """One inventory, with what suits each predicate. Nodes and types with equal inventories are one shape."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._suiting: dict[Predicate, tuple[int, ...]] = {}
        self.faults: dict[Predicate, str] = {}
        """Why a selector could not be evaluated, of the first device for which it could not."""

    def suiting(self, predicate: Predicate) -> tuple[int, ...]:
        """Indices of the free devices that suit."""
        found = self._suiting.get(predicate)
        if found is None:
            free = self.inventory.free
            found = tuple(at for at, item in enumerate(free) if self._suits(predicate, item))
            self._suiting[predicate] = found
        return found

    def all_available(self, predicate: Predicate) -> bool:
        """Can every selected device be had? None is held by a claim, nor has a taint that is not tolerated: a claim of
        all devices does not pass over one."""
        held = any(self._is_selected(predicate, item) for item in self.inventory.held)
        return not held and not any(
            self._is_selected(predicate, item) and not _is_tolerated(predicate, item)
            for item in self.inventory.free
        )

    def _suits(self, predicate: Predicate, item: Item) -> bool:
        return _is_tolerated(predicate, item) and self._is_selected(predicate, item)

    def _is_selected(self, predicate: Predicate, item: Item) -> bool:
        if uses(predicate, item.driver, item.device) < 1:
            return False
        verdict: Verdict = selects(predicate.selectors, item.driver, item.device)
        if verdict.fault:
            self.faults.setdefault(predicate, verdict.fault)
        return verdict.selects

    def most(self, predicates: Iterable[Predicate], within: frozenset[int] | None = None) -> int:
        """The most devices that all of these can have together, at once. ``within``: of these devices only."""
        wanted = list(predicates)
        rows = (
            sorted({at for one in wanted for at in self.suiting(one)} & within)
            if (within is not None)
            else sorted({at for one in wanted for at in self.suiting(one)})
        )
        items = [self.inventory.free[at] for at in rows]
        if any(item.device.consumes for item in items):
            return self._most_partitions(items)
        return sum(
            max((uses(one, i.driver, i.device) for one in wanted), default=0)
            if i.device.shared
            else 1
            for i in items
        )

    def _most_partitions(self, items: list[Item]) -> int:
        """Smallest first: exact for devices of one size, which is what a predicate mostly selects."""
        left = {name: dict(amounts) for name, amounts in self.inventory.counters.items()}
        found = 0
        for item in sorted(items, key=lambda one: (_size(one.device), one.device.name)):
            takes = [
                (left.get(counter_set(item.driver, item.pool, name), {}), counter, amount)
                for name, amounts in item.device.consumes.items()
                for counter, amount in amounts.items()
            ]
            if all(there.get(counter, 0) >= amount for there, counter, amount in takes):
                found += 1
                for there, counter, amount in takes:
                    there[counter] -= amount
        return found

    def least_counters(self, predicate: Predicate) -> dict[tuple[str, str], int]:
        """(driver, counter) -> the least that a suiting device takes of it."""
        items = [self.inventory.free[at] for at in self.suiting(predicate)]
        totals = [_totals(item) for item in items]
        names = {name for one in totals for name in one}
        return {name: min(one.get(name, 0) for one in totals) for name in sorted(names)}

    def counters(self) -> dict[tuple[str, str], int]:
        """(driver, counter) -> what is left of it in all counter sets together."""
        found: dict[tuple[str, str], int] = defaultdict(int)
        for key, amounts in self.inventory.counters.items():
            for counter, amount in amounts.items():
                found[key.partition("/")[0], counter] += max(amount, 0)
        return dict(found)


def consumed(predicate: Predicate, driver: str, device: Device) -> dict[str, int] | None:
    """What one claim takes of each capacity of a shared device; None when it cannot have it."""
    asked = {name if "/" in name else f"{driver}/{name}": n for name, n in predicate.capacity}
    if not asked.keys() <= device.capacity.keys():
        return None
    found = {}
    for name, there in device.capacity.items():
        amount = _rounded(asked.get(name), there, device.policies.get(name))
        if amount is None or amount > there:
            return None
        found[name] = amount
    return found


def uses(predicate: Predicate, driver: str, device: Device) -> int:
    """How many claims with this predicate can have the device at once."""
    taken = consumed(predicate, driver, device)
    if taken is None:
        return 0
    if not device.shared:
        return 1
    return min((device.capacity[n] // amount for n, amount in taken.items() if amount), default=1)


def _rounded(asked: int | None, there: int, policy: CapacityPolicy | None) -> int | None:
    """A request for a capacity as Kubernetes rounds it up; None when the policy allows none that is large enough."""
    if policy is None:
        return there if asked is None else asked
    amount = (policy.default if policy.default is not None else there) if asked is None else asked
    if policy.values:
        return next((one for one in policy.values if one >= amount), None)
    amount = max(amount, policy.least or 0)
    if policy.step:
        base = policy.least or 0
        amount = base + -(-(amount - base) // policy.step) * policy.step
    return None if policy.most is not None and amount > policy.most else amount


def _totals(item: Item) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = defaultdict(int)
    for amounts in item.device.consumes.values():
        for counter, amount in amounts.items():
            found[item.driver, counter] += amount
    return found


def _size(device: Device) -> int:
    return sum(amount for amounts in device.consumes.values() for amount in amounts.values())


def count_of(ask: Ask, shape: Shape) -> int | None:
    """How many devices the ask needs on this shape; None when it cannot be met there."""
    if not ask.takes_all:
        return ask.count
    there = len(shape.suiting(ask.predicate))
    return there if there and (ask.admin or shape.all_available(ask.predicate)) else None


def places(alternative: Alternative, shape: Shape) -> int:
    """How many pods with this alternative, and no others, the shape holds at once; 0: not even one.

    Exact for devices of their own; for several rules, and for partitions of different sizes, never less than exact.
    """
    counts = [count_of(ask, shape) for ask in alternative.asks]
    if None in counts:
        return 0
    known = [count or 0 for count in counts]
    for ask, count in zip(alternative.asks, known, strict=True):
        if ask.admin and len(shape.suiting(ask.predicate)) < count:
            return 0
    found = [_together(alternative.asks, known, shape)]
    found += [_by_rule(rule, alternative.asks, known, shape) for rule in alternative.rules]
    return min(found)


def _together(
    asks: tuple[Ask, ...], counts: list[int], shape: Shape, within: frozenset[int] | None = None
) -> int:
    """By Hall's theorem: devices for all pods exist when every set of asks finds enough of them."""
    taking = [at for at, ask in enumerate(asks) if not ask.admin and counts[at]]
    least = None
    for size in range(1, len(taking) + 1):
        for chosen in combinations(taking, size):
            total = sum(counts[at] for at in chosen)
            there = shape.most((asks[at].predicate for at in chosen), within)
            least = there // total if least is None else min(least, there // total)
    return 2**31 if least is None else least


def _by_rule(rule: Rule, asks: tuple[Ask, ...], counts: list[int], shape: Shape) -> int:
    chosen = [at for at in rule.asks if not asks[at].admin]
    if not chosen:
        return 2**31
    groups = _values(rule.attribute, [asks[at].predicate for at in chosen], shape)
    some, needed = tuple(asks[at] for at in chosen), [counts[at] for at in chosen]
    if not rule.distinct:
        return sum(_together(some, needed, shape, frozenset(rows)) for rows in groups.values())
    total, found = sum(needed), 0
    sizes = [len(rows) for rows in groups.values()]
    while total and sum(min(size, found + 1) for size in sizes) >= (found + 1) * total:
        found += 1
    return found


def _values(
    attribute: str, predicates: list[Predicate], shape: Shape
) -> dict[Attribute, list[int]]:
    """The suiting devices by their value of the attribute; those without one are left out."""
    rows = sorted({at for one in predicates for at in shape.suiting(one)})
    found: dict[Attribute, list[int]] = defaultdict(list)
    for at in rows:
        item = shape.inventory.free[at]
        name = attribute if "/" in attribute else f"{item.driver}/{attribute}"
        value = item.device.attributes.get(name, item.device.versions.get(name))
        if value is not None:
            found[value].append(at)
    return found


def _is_tolerated(predicate: Predicate, item: Item) -> bool:
    """Have all taints that keep claims off a toleration?"""
    taints = tuple(
        Taint(one.key, one.effect, one.value)
        for one in item.device.taints
        if one.effect != PREFERRED
    )
    return not taints or first_untolerated(taints, predicate.tolerations) is None
