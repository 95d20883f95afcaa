"""Devices as amounts: columns that the planner adds and compares like CPU and memory.

For pods that take devices from overlapping sets, all of them find one exactly if every union of these sets is large
enough (Hall's theorem). Each column is one such union: its amount on a node is the number of devices, and a pod takes
as many as it asks for from them. Unions that follow from others have no column; mostly one column per driver is left.

Counter sets of partitions and capacities of shared devices are columns too, summed over a node's devices. These are
necessary and not sufficient: what is left may lie on different devices. kube-scheduler decides, and the next plan sees
what is really free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from shared.domain.devices.demands import Alternative, Predicate
from shared.domain.devices.matching import Shape, consumed, count_of, places

PREFIX = "devices/"
"""Begins the names of the columns. No resource of Kubernetes is in this domain, since it has no dot."""
MOST_OVERLAPPING = 6
"""Different predicates that select common devices; the pods of others wait for the next plan."""
ANY = 2**31
"""The amount of a column that only excludes."""


class Column(NamedTuple):
    """One union of sets of devices."""

    name: str
    predicates: frozenset[Predicate]


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns for the predicates of one plan."""

    unions: tuple[Column, ...]
    crowded: frozenset[Predicate]
    """Predicates that were left out, because too many overlap."""

    def amounts(self, shape: Shape) -> dict[str, int]:
        """What the shape has of each column."""
        found = {one.name: shape.most(_in_order(one.predicates)) for one in self.unions}
        for (driver, counter), amount in shape.counters().items():
            found[_counter_name(driver, counter)] = amount
        for item in shape.inventory.free:
            if item.device.shared:
                for name, amount in item.device.capacity.items():
                    column = _capacity_name(name)
                    found[column] = found.get(column, 0) + amount
        return found

    def demand(self, alternative: Alternative, shape: Shape) -> dict[str, int]:
        """What a pod takes of each column on this shape, where it fits."""
        found: dict[str, int] = {}

        def take(name: str, amount: int) -> None:
            if amount:
                found[name] = found.get(name, 0) + amount

        for ask in alternative.asks:
            if ask.admin:
                continue
            count = count_of(ask, shape) or 0
            for one in self.unions:
                if ask.predicate in one.predicates:
                    take(one.name, count)
            for (driver, counter), amount in shape.least_counters(ask.predicate).items():
                take(_counter_name(driver, counter), amount * count)
            for name, amount in _least_capacity(ask.predicate, shape).items():
                take(_capacity_name(name), amount * count)
        return found


def _counter_name(driver: str, counter: str) -> str:
    return f"{PREFIX}{driver}/counter-{counter}"


def _capacity_name(name: str) -> str:
    return f"{PREFIX}{name}/capacity"


def _least_capacity(predicate: Predicate, shape: Shape) -> dict[str, int]:
    """Capacity -> the least that one claim takes of it; nothing when it may get a device of its own."""
    items = [shape.inventory.free[at] for at in shape.suiting(predicate)]
    if not items or not all(item.device.shared for item in items):
        return {}
    taken = [consumed(predicate, item.driver, item.device) or {} for item in items]
    names = {name for one in taken for name in one}
    return {name: min(one.get(name, 0) for one in taken) for name in sorted(names)}


def columns_for(predicates: Sequence[Predicate], shapes: Sequence[Shape]) -> Columns:
    """The columns. Of overlapping predicates the first ``MOST_OVERLAPPING`` count, in the given order."""
    unions: list[Column] = []
    crowded: set[Predicate] = set()
    for group in _overlapping(predicates, shapes):
        crowded.update(group[MOST_OVERLAPPING:])
        kept = group[:MOST_OVERLAPPING]
        name = f"{PREFIX}{kept[0].device_class}"
        for chosen in _unions(kept, shapes):
            number = f"-{len(unions) + 1}" if unions else ""
            unions.append(Column(name + number, chosen))
    return Columns(tuple(unions), frozenset(crowded))


def _overlapping(predicates: Sequence[Predicate], shapes: Sequence[Shape]) -> list[list[Predicate]]:
    """Groups of predicates, of which two in different groups never select the same device."""
    groups: list[list[Predicate]] = []
    for one in predicates:
        joined: list[list[Predicate]] = []
        apart: list[list[Predicate]] = []
        for group in groups:
            (joined if any(_meet(one, other, shapes) for other in group) else apart).append(group)
        merged = [member for group in joined for member in group] + [one]
        groups = [*apart, merged]
    order = {one: at for at, one in enumerate(predicates)}
    for group in groups:
        group.sort(key=order.__getitem__)
    return sorted(groups, key=lambda group: order[group[0]])


def _meet(one: Predicate, other: Predicate, shapes: Iterable[Shape]) -> bool:
    return any(not set(s.suiting(one)).isdisjoint(s.suiting(other)) for s in shapes)


def _unions(group: list[Predicate], shapes: Sequence[Shape]) -> list[frozenset[Predicate]]:
    """The unions that no other one implies, larger ones first."""
    kept: list[tuple[frozenset[Predicate], tuple[int, ...]]] = []
    for size in range(len(group), 0, -1):
        for chosen in combinations(group, size):
            if size > 1 and not any(_is_connected(chosen, shape) for shape in shapes):
                continue
            sizes = tuple(shape.most(chosen) for shape in shapes)
            union = frozenset(chosen)
            if not any(union < larger and sizes == there for larger, there in kept):
                kept.append((union, sizes))
    return [union for union, _ in kept]


def _is_connected(chosen: Sequence[Predicate], shape: Shape) -> bool:
    """Do the devices of these predicates on this shape hang together, so that they compete?"""
    sets = [set(shape.suiting(one)) for one in chosen]
    if not all(sets):
        return False
    reached, waiting = sets[0], sets[1:]
    while waiting:
        touching = [one for one in waiting if not one.isdisjoint(reached)]
        if not touching:
            return False
        reached = reached.union(*touching)
        waiting = [one for one in waiting if one.isdisjoint(reached)]
    return True


def _in_order(predicates: Iterable[Predicate]) -> list[Predicate]:
    return list(predicates)


class Variant(NamedTuple):
    """One way of placing a pod: what it takes, on these shapes (indices)."""

    demand: dict[str, int]
    shapes: tuple[int, ...]
    excludes: bool
    """Whether shapes that are not listed would pass by their amounts."""
    per_shape: tuple[int, ...]
    """How many such pods each listed shape holds, where a rule limits them; else empty."""


def variants(
    alternative: Alternative,
    shapes: Sequence[Shape],
    amounts: Sequence[dict[str, int]],
    columns: Columns,
) -> list[Variant]:
    """The ways of placing a pod with this alternative, that which takes least first."""
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    held = [places(alternative, shape) for shape in shapes]
    for at, shape in enumerate(shapes):
        if held[at]:
            demand = tuple(sorted(columns.demand(alternative, shape).items()))
            groups.setdefault(demand, []).append(at)
    found = []
    for demand, listed in sorted(groups.items(), key=lambda one: (sum(n for _, n in one[0]), one)):
        taken, inside = dict(demand), set(listed)
        others = (amounts[at] for at in range(len(shapes)) if at not in inside)
        excludes = any(all(o.get(name, 0) >= n for name, n in demand) for o in others)
        limited = tuple(held[at] for at in listed) if alternative.rules else ()
        found.append(Variant(taken, tuple(listed), excludes or not demand, limited))
    return found
