"""The offerings of a pool that are worth considering: sizes with a price, without those that a better one replaces.

An on-demand offering is an instance type at its price. A spot offering is a size at the expected price of a launch in
which EC2 chooses among all types of at least that size: the cheapest spot pools (type and zone) with decreasing weight,
since each has capacity with some probability only. Sizes slightly below a type's own let similar types of other
families count too. The pool's price per node is part of each price.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from shared.domain import labels as keys
from shared.domain.resources import CPU, MEMORY
from shared.solver.encode import NO_PRICE, Indices, Mask
from shared.solver.lowest_cost.problem import ANY_ZONE, Counts, Floats, Offers, distinct_rows
from shared.solver.placement.planned_machines import unmet_min_values
from shared.solver.pools.templates import PoolTemplate

MIN_SPOT_POOLS = 15
"""A spot launch should have at least so many spot pools (type and zone) to choose from."""
SPOT_POOL_PROBABILITY = 0.95
"""The assumed probability that a spot pool has capacity. Plans state the price of the cheapest pool: the lower this is,
the further the packing's prices are from those (docs/development/measured/cost.md#spot)."""
_SIZE_SHARES = (1.0, 0.97, 0.92)
"""Sizes that are offered per type, as shares of the type's own size."""
_MIN_PRICE_MICRO_USD = 1.0
"""Micro-USD per hour. The efficiency of a content is its worth per price, so a price must not be zero."""


class OfferTable:
    """All offerings of one pool. ``signatures``: [distinct classes, types], which class may use which type."""

    def __init__(self, template: PoolTemplate, signatures: Mask) -> None:
        self._template = template
        self._table = template.table
        room = template.available[template.types]
        useful = (room >= 0).all(axis=1) & template.within_limits()[template.types]
        useful &= signatures[:, template.types].any(axis=0)
        self._types: Indices = template.types[useful]
        self._room = template.available[self._types].astype(np.float64)
        self._signatures = signatures[:, self._types].T
        self._stands_in = covering(self._signatures)

    def offers(self, zones: list[int], kinds: list[int]) -> Offers:
        """The offerings in any zone, and in each of ``zones``, of these capacity types."""
        parts = []
        for kind in kinds:
            for zone in (ANY_ZONE, *zones):
                parts.append(self._in_place(zone, kind))
        return joined(parts, self._room.shape[1])

    def _in_place(self, zone: int, kind: int) -> Offers:
        at = [zone] if zone != ANY_ZONE else list(np.flatnonzero(self._template.zones))
        prices = self._table.price[self._types][:, at, kind]
        cheapest = prices.min(axis=1, initial=NO_PRICE)
        offered = np.flatnonzero(cheapest != NO_PRICE)
        price = np.maximum(cheapest[offered].astype(np.float64), _MIN_PRICE_MICRO_USD)
        order = offered[np.argsort(price, kind="stable")]
        price = np.sort(price, kind="stable")
        kept = self._unbeaten(order, self._room[order], price)
        if self._wants_choice(kind):
            return self._flexible(order, order[kept], prices, zone, kind)
        found = order[kept]
        return self._make(found, self._room[found], price[kept], zone, kind, None)

    def _wants_choice(self, kind: int) -> bool:
        is_spot = self._table.capacity_types[kind] == keys.SPOT
        return is_spot or self._template.requirements.asks_for_values

    def _flexible(
        self, offered: Indices, anchors: Indices, prices: Counts, zone: int, kind: int
    ) -> Offers:
        """Sizes of the types ``anchors``, priced over every type that could replace them."""
        rows = np.concatenate([anchors] * len(_SIZE_SHARES))
        sizes = np.concatenate([self._shrunk(anchors, share) for share in _SIZE_SHARES])
        could = self._could_be(sizes, rows, offered)
        enough = self._enough_values(could, offered)
        rows, sizes, could = rows[enough], sizes[enough], could[enough]
        if self._table.capacity_types[kind] == keys.SPOT:
            price, pools = expected_price(could, prices[offered])
            flexible = pools >= MIN_SPOT_POOLS
        else:
            cheapest = prices[offered].min(axis=1).astype(np.float64)
            price = np.where(could, cheapest, np.inf).min(axis=1, initial=np.inf)
            flexible = np.ones(len(rows), dtype=np.bool_)
        price = np.maximum(price, _MIN_PRICE_MICRO_USD)
        order = np.argsort(price, kind="stable")
        return self._make(
            rows[order], sizes[order], price[order], zone, kind, flexible[order]
        ).only(self._unbeaten(rows[order], sizes[order], price[order], flexible[order]))

    def _shrunk(self, types: Indices, share: float) -> Floats:
        """Sizes with a share of CPU and memory; pods and extended resources are not divisible."""
        sizes = self._room[types].copy()
        for name in (CPU, MEMORY):
            column = self._table.axis.names.index(name)
            sizes[:, column] = np.floor(sizes[:, column] * share)
        return sizes

    def _could_be(self, sizes: Floats, rows: Indices, offered: Indices) -> Mask:
        """[sizes, offered types]: large enough, and usable by each class that may use the size's own type."""
        found = self._stands_in(rows, offered)
        for column in range(sizes.shape[1]):
            found = found & (self._room[offered, column][None, :] >= sizes[:, column][:, None])
        return found

    def _enough_values(self, could: Mask, offered: Indices) -> Mask:
        """[sizes]: the size's types meet the pool's minValues (SCH-12)."""
        wanted = self._template.requirements
        if not wanted.asks_for_values:
            return np.ones(len(could), dtype=np.bool_)
        lists = (self._types[offered[row]] for row in could)
        return np.array(
            [not unmet_min_values(wanted, types, self._table) for types in lists], np.bool_
        )

    def _unbeaten(
        self, rows: Indices, sizes: Floats, price: Floats, flexible: Mask | None = None
    ) -> Mask:
        """[rows], sorted by price: no cheaper row is at least as good."""
        equal = np.ones(len(rows), dtype=np.bool_) if flexible is None else flexible
        return unbeaten(sizes, equal, self._stands_in(rows, rows))

    def _make(
        self,
        rows: Indices,
        sizes: Floats,
        price: Floats,
        zone: int,
        kind: int,
        flexible: Mask | None,
    ) -> Offers:
        count = len(rows)
        return Offers(
            self._types[rows],
            np.full(count, zone, dtype=np.intp),
            np.full(count, kind, dtype=np.intp),
            sizes,
            price + self._template.node_price,
            np.ones(count, dtype=np.bool_) if flexible is None else flexible,
        )


def unbeaten(sizes: Floats, flexible: Mask, stands_in: Mask) -> Mask:
    """[rows], sorted by price: True for rows without an earlier one that is at least as good in every respect.

    ``stands_in``: [rows, rows], the second row may be used wherever the first one is allowed.
    """
    better = stands_in & np.tri(len(sizes), len(sizes), -1, dtype=np.bool_)
    better &= flexible[None, :] >= flexible[:, None]
    for column in range(sizes.shape[1]):
        ranks = _ranks(sizes[:, column])
        better &= ranks[None, :] >= ranks[:, None]
    return np.asarray(~better.any(axis=1), dtype=np.bool_)


def _ranks(amounts: Floats) -> npt.NDArray[Any]:
    """The position of each amount among the distinct ones: comparing all pairs of small integers takes a fifth of the
    time of comparing floats."""
    order = np.argsort(amounts, kind="stable")
    steps = np.diff(amounts[order]) > 0
    found = np.zeros(len(amounts), dtype=np.int16 if len(amounts) < 2**15 else np.int32)
    found[order[1:]] = np.cumsum(steps)
    return found


def covering(columns: Mask) -> Callable[[Indices, Indices], Mask]:
    """A function of rows and other rows: may the other one be used by every class that may use the first?

    ``columns``: [rows, classes], which class may use which row. Equal rows are compared once.
    """
    firsts, codes = distinct_rows(columns)
    distinct = columns[firsts]
    covers = np.array([(distinct >= row).all(axis=1) for row in distinct], dtype=np.bool_)
    covers = covers.reshape(len(distinct), len(distinct))

    def stands_in(first: Indices, second: Indices) -> Mask:
        found: Mask = covers[codes[first]][:, codes[second]]
        return found

    return stands_in


def expected_price(could: Mask, prices: Counts) -> tuple[Floats, Counts]:
    """[sizes]: the average price of a spot launch, and the number of spot pools that it can choose from.

    ``could``: [sizes, types]; ``prices``: [types, zones]. The k-th cheapest pool counts with the probability that it
    has capacity and all cheaper ones have none.
    """
    types, zones = np.nonzero(prices != NO_PRICE)
    amounts = prices[types, zones]
    order = np.lexsort((zones, types, amounts))
    total, weight = np.zeros(len(could)), np.zeros(len(could))
    chance = np.ones(len(could))
    pools = np.zeros(len(could), dtype=np.int64)
    for at in order:
        hit = could[:, types[at]]
        share = np.where(hit, chance * SPOT_POOL_PROBABILITY, 0.0)
        total += share * float(amounts[at])
        weight += share
        chance[hit] *= 1 - SPOT_POOL_PROBABILITY
        pools += hit
    return np.where(weight > 0, total / np.maximum(weight, 1e-300), np.inf), pools


def joined(parts: list[Offers], width: int) -> Offers:
    """All rows of ``parts``. ``width``: number of resources, needed when there are no parts."""
    none = np.zeros(0, dtype=np.intp)
    first = Offers(none, none, none, np.zeros((0, width)), np.zeros(0), np.zeros(0, np.bool_))
    all_parts = [first, *parts]
    columns = zip(*(part.columns() for part in all_parts), strict=True)
    return Offers(*map(np.concatenate, columns))
