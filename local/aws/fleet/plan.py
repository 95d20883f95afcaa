"""Distributes a fleet request over pools: pure decisions, no AWS objects.

A pool is one (instance type, zone, capacity type) with a price. The capacity of a pool is known only when a test states
it, so ``price-capacity-optimized`` is price order here; ``capacity-optimized`` compares the stated capacity first. A
pool that cannot serve its share is reported, as on EC2 (LCH-60).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PRIORITY_STRATEGIES = frozenset({"prioritized", "capacity-optimized-prioritized"})
STRATEGIES = {
    "spot": frozenset(
        {
            "lowest-price",
            "price-capacity-optimized",
            "capacity-optimized",
            "capacity-optimized-prioritized",
            "diversified",
        }
    ),
    "on-demand": frozenset({"lowest-price", "prioritized"}),
}
DEFAULT_STRATEGY = {"spot": "lowest-price", "on-demand": "lowest-price"}

UNLIMITED = 1_000_000

PoolKey = tuple[str, str, str]
"""(instance type, zone, capacity type)."""


@dataclass(frozen=True, slots=True)
class Pool:
    """One override that EC2 could launch. ``priority`` is None when the request gives none (sorts last)."""

    instance_type: str
    zone: str
    capacity_type: str
    price: float
    priority: float | None
    payload: Any = None
    limit: int = UNLIMITED
    """Most instances of this override by other limits than the pool's capacity: addresses, quota, reservation."""

    @property
    def key(self) -> PoolKey:
        """The pool's key in the stated capacity."""
        return self.instance_type, self.zone, self.capacity_type


@dataclass(frozen=True, slots=True)
class Plan:
    """``grants`` in launch order; ``exhausted`` are the pools that could not serve their share."""

    grants: tuple[tuple[Pool, int], ...]
    exhausted: tuple[Pool, ...]

    @property
    def fulfilled(self) -> int:
        """Instances granted in all."""
        return sum(number for _, number in self.grants)


def available(capacity: Mapping[PoolKey, int], pool: Pool) -> int:
    """Instances that ``pool`` still has; unlimited without a statement."""
    return min(capacity.get(pool.key, UNLIMITED), pool.limit)


def order(pools: Sequence[Pool], strategy: str, capacity: Mapping[PoolKey, int]) -> list[Pool]:
    """The order in which the strategy tries the pools. Equal pools keep the order of the request."""

    def by_priority(pool: Pool) -> tuple[float, float]:
        return (float("inf") if pool.priority is None else pool.priority, pool.price)

    def by_capacity(pool: Pool) -> tuple[float, float]:
        return (-available(capacity, pool), pool.price)

    if strategy in PRIORITY_STRATEGIES:
        return sorted(pools, key=by_priority)
    if strategy == "capacity-optimized":
        return sorted(pools, key=by_capacity)
    return sorted(pools, key=lambda pool: pool.price)


def plan(pools: Sequence[Pool], want: int, strategy: str, capacity: Mapping[PoolKey, int]) -> Plan:
    """Grant up to ``want`` instances. Partial when the pools have less."""
    ordered = order(pools, strategy, capacity)
    if strategy == "diversified":
        return _spread(ordered, want, capacity)
    remaining = dict(capacity)
    grants: list[tuple[Pool, int]] = []
    exhausted: list[Pool] = []
    left = want
    for pool in ordered:
        if left <= 0:
            break
        number = min(left, available(remaining, pool))
        if number < left:
            exhausted.append(pool)
        if number > 0:
            grants.append((pool, number))
            left -= number
            _use(remaining, pool, number)
    return Plan(tuple(grants), tuple(exhausted))


def _spread(ordered: Sequence[Pool], want: int, capacity: Mapping[PoolKey, int]) -> Plan:
    """One instance from each pool in turn."""
    remaining, left = dict(capacity), want
    numbers = [0] * len(ordered)
    places = list(range(len(ordered)))
    exhausted: list[Pool] = []
    while left > 0 and places:
        for place in list(places):
            pool = ordered[place]
            if left <= 0:
                break
            if min(available(remaining, pool), pool.limit - numbers[place]) <= 0:
                places.remove(place)
                exhausted.append(pool)
                continue
            numbers[place] += 1
            _use(remaining, pool, 1)
            left -= 1
    grants = ((pool, number) for pool, number in zip(ordered, numbers, strict=True) if number)
    return Plan(tuple(grants), tuple(exhausted))


def _use(remaining: dict[PoolKey, int], pool: Pool, number: int) -> None:
    if pool.key in remaining:
        remaining[pool.key] -= number


def cut(plan: Plan, give: int) -> Plan:
    """The first ``give`` instances of a plan; pools that lose instances count as exhausted."""
    grants: list[tuple[Pool, int]] = []
    exhausted = list(plan.exhausted)
    left = give
    for pool, number in plan.grants:
        kept = min(number, left)
        left -= kept
        if kept:
            grants.append((pool, kept))
        if kept < number and all(pool is not one for one in exhausted):
            exhausted.append(pool)
    return Plan(tuple(grants), tuple(exhausted))


def plan_within_one(
    pools: Sequence[Pool],
    want: int,
    strategy: str,
    capacity: Mapping[PoolKey, int],
    group: Callable[[Pool], str],
) -> Plan:
    """The best plan within one zone or one type: most instances first, then the lowest cost."""
    names = list(dict.fromkeys(group(pool) for pool in pools))
    plans = [
        plan([pool for pool in pools if group(pool) == name], want, strategy, capacity)
        for name in names
    ]
    if not plans:
        return Plan((), ())
    return min(plans, key=lambda p: (-p.fulfilled, sum(pool.price * n for pool, n in p.grants)))
