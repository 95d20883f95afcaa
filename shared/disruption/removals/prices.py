"""What a new machine for some pods costs at least. Pure."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from shared.disruption.removals.rooms import AXIS
from shared.domain.requirements import Requirements
from shared.domain.snapshot import Snapshot
from shared.solver.encode import NO_PRICE, Amounts, Mask, TypeTable
from shared.solver.pools.templates import PoolTemplate, usable_templates


class Prices:
    """Of the machines that the pools of one snapshot may buy."""

    def __init__(self, snapshot: Snapshot) -> None:
        table = TypeTable.of(snapshot.catalogue, AXIS, snapshot.unavailable, snapshot.shortages)
        self._pools = [_Offers(one, snapshot) for one in usable_templates(snapshot, table)[0]]

    def least(self, need: Amounts, wanted: Collection[Requirements]) -> int:
        """Micro-USD per hour of the cheapest machine that holds ``need`` and meets each of ``wanted``; ``NO_PRICE``
        when no pool has one."""
        return min((pool.least(need, wanted) for pool in self._pools), default=NO_PRICE)


class _Offers:
    """The types of one pool. ``_price``: [types, capacity types], over the pool's zones."""

    def __init__(self, template: PoolTemplate, snapshot: Snapshot) -> None:
        self._table, self._room = template.table, template.available
        capacities = self._table.capacity_types
        shape = (len(self._table.types), len(capacities))
        self._price = np.full(shape, NO_PRICE, dtype=np.int64)
        open_ = dict(zip(capacities, self._table.capacity_mask(template.requirements), strict=True))
        for row in template.types.tolist():
            kind = self._table.types[row]
            for one in kind.offerings:
                sold = (one.capacity_type, kind.name, one.zone) not in snapshot.unavailable
                if sold and one.zone in template.zone_names and open_.get(one.capacity_type):
                    at = row, capacities.index(one.capacity_type)
                    self._price[at] = min(self._price[at], one.price_micro_usd_per_hour)
        self._lowest: Amounts = self._price.min(axis=1, initial=NO_PRICE)
        self._known: dict[Requirements, Amounts] = {}

    def least(self, need: Amounts, wanted: Collection[Requirements]) -> int:
        prices = self._lowest
        for one in wanted:
            prices = np.maximum(prices, self._prices(one))
        fitting: Mask = np.all(self._room >= need, axis=1)
        return int(prices[fitting].min(initial=NO_PRICE))

    def _prices(self, wanted: Requirements) -> Amounts:
        """[types]: the lowest price within these requirements."""
        found = self._known.get(wanted)
        if found is None:
            lowest = self._price[:, self._table.capacity_mask(wanted)].min(axis=1, initial=NO_PRICE)
            found = np.where(self._table.matching(wanted), lowest, NO_PRICE)
            self._known[wanted] = found
        return found
