"""Instance types and resources as numpy arrays, so that one comparison covers all types at once.

``ResourceAxis`` defines the columns: only resources that some pod requests. ``TypeTable`` holds allocatable
[types, resources], offerings [types, zones, capacity types] and, per requirement, the cached mask of types that meet
it. Amounts are int64, capped at 2**61 so that adding one pod to a machine's content cannot overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from shared.domain import labels as keys
from shared.domain.instance_types.reservations import needs_reservation
from shared.domain.instance_types.shortages import Shortages, in_group, surcharge
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import adapted, effective, is_a1
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering, of_pool
from shared.domain.requirements import Requirement, Requirements
from shared.domain.resources import CPU, MEMORY, PODS, Resources
from shared.domain.snapshot import OfferingKey
from shared.domain.workloads.kept import Recent
from shared.solver.reasons import price_fault

Amounts: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Indices: TypeAlias = npt.NDArray[np.intp]

LARGEST = 2**61
NO_PRICE = np.iinfo(np.int64).max
"""The price of an offering that is not available."""
MOST_KEPT, MOST_SIZED = 4096, 32
"""So many masks of requirements, and sizes of types, are kept from plan to plan; a mask has a byte for each type."""

_NOT_FROM_TYPES = frozenset(
    {keys.ZONE, keys.ZONE_ID, keys.CAPACITY_TYPE, keys.PROVISIONER_NAME, keys.NODE_POOL}
)
"""Label keys whose values come from offerings, subnets or pools, not from the instance type."""


class ResourceAxis:
    """The columns of every amount vector, sorted by name."""

    def __init__(self, parts: Iterable[Resources]) -> None:
        self.names = sorted({CPU, MEMORY, PODS}.union(*parts))
        self.columns = tuple(self.names)
        self.cpu = self.names.index(CPU)

    def vector(self, resources: Resources) -> Amounts:
        """Amounts by column. Resources without a column are dropped, since no pod requests them."""
        return np.array(self._row(resources), dtype=np.int64)

    def matrix(self, rows: Sequence[Resources]) -> Amounts:
        """[rows, columns]."""
        found = np.array([self._row(row) for row in rows], dtype=np.int64)
        return found.reshape(len(rows), len(self.names))

    def _row(self, resources: Resources) -> list[int]:
        found = [resources.get(name, 0) for name in self.names]
        if max(found) <= LARGEST and min(found) >= -LARGEST:
            return found
        return [max(min(amount, LARGEST), -LARGEST) for amount in found]

    def resources(self, vector: Amounts) -> dict[str, int]:
        """Amounts by resource name, without zero amounts."""
        return {n: a for n, a in zip(self.names, vector.tolist(), strict=True) if a}


class TypeTable:
    """All instance types of the catalogue, sorted by name.

    ``offered`` and ``price``: [types, zones, capacity types].
    """

    offered: Mask
    price: Amounts

    def __init__(
        self,
        catalogue: Catalogue,
        axis: ResourceAxis,
        unavailable: frozenset[OfferingKey],
        shortages: Shortages = (),
    ) -> None:
        self.axis = axis
        self.region = catalogue.region
        self.types: tuple[InstanceType, ...] = tuple(sorted(catalogue.types, key=lambda t: t.name))
        self.names = [t.name for t in self.types]
        self.index = {name: i for i, name in enumerate(self.names)}
        self.allocatable = axis.matrix([t.allocatable() for t in self.types])
        self._unavailable, self._shortages = unavailable, shortages
        self._encode_offerings(unavailable)
        self._count_as_dearer(shortages)
        self._pools = frozenset(p for t in self.types for one in t.for_pools for p in one.pools)
        self._images = frozenset(image for t in self.types for image in t.memory_by_image)
        self._has_a1 = any(map(is_a1, self.names))
        self._sized: dict[tuple[SizeSettings, str], TypeTable] = {(USUAL, ""): self}
        self._clear_caches()

    @classmethod
    def of(
        cls,
        catalogue: Catalogue,
        axis: ResourceAxis,
        unavailable: frozenset[OfferingKey],
        shortages: Shortages = (),
    ) -> TypeTable:
        """As the constructor. An earlier table of the same catalogue, resources and offerings is used again, with what
        it worked out for requirements: a catalogue changes once in many plans, and most plans ask the same of it."""
        made_of = (catalogue.region, axis.names, unavailable, shortages)
        known = (
            table
            for types, before, table in _RECENT
            if types is catalogue.types and before == made_of
        )
        table = next(known, None)
        if table is None:
            table = cls(catalogue, axis, unavailable, shortages)
            _RECENT.add((catalogue.types, made_of, table))
        elif table._is_full():
            table._sized = {(USUAL, ""): table}
            table._clear_caches()
        return table

    def _is_full(self) -> bool:
        """Plans of other threads may read it meanwhile, so nothing is taken out of a cache: all are made anew."""
        kept = sum(len(one._masks) + len(one._compatible) for one in tuple(self._sized.values()))
        return kept > MOST_KEPT or len(self._sized) > MOST_SIZED

    def _clear_caches(self) -> None:
        self._codes: dict[str, tuple[list[tuple[str, ...]], Indices]] = {}
        self._masks: dict[Requirement, Mask] = {}
        self._compatible: dict[Requirements, Mask] = {}
        self._offered: dict[tuple[bytes, bytes], Mask] = {}
        self._capacity: dict[str, Amounts] = {}

    def sized(self, settings: SizeSettings, pool_key: str = "") -> TypeTable:
        """The same rows and zones with the sizes that pools with these settings get, and the prices of this pool.

        Equal settings share one table, unless the pool has prices of its own; default settings get this table itself.
        """
        known = self._sized
        settings = effective(settings, self._images, first_graviton=self._has_a1)
        at = settings, pool_key if pool_key in self._pools else ""
        found = known.get(at)
        if found is None:
            found = known[at] = known[USUAL, ""]._adapted(*at)
        return found

    def _adapted(self, settings: SizeSettings, pool_key: str) -> TypeTable:
        other = copy(self)
        own = [of_pool(t, pool_key) for t in self.types] if pool_key else self.types
        other.types = tuple(adapted(t, settings) for t in own)
        if pool_key:
            other._price_again(i for i, t in enumerate(self.types) if own[i] is not t)
        pairs = zip(self.types, other.types, strict=True)
        changed = [i for i, (old, new) in enumerate(pairs) if new is not old]
        other.allocatable = self.allocatable.copy()
        resized = [other.types[i].allocatable() for i in changed]
        other.allocatable[changed] = self.axis.matrix(resized)
        sold = np.array([bool(t.offerings) for t in other.types], dtype=np.bool_)
        other.offered = other.offered & sold[:, np.newaxis, np.newaxis]
        other.price = np.where(other.offered, other.price, NO_PRICE)
        other._leave_out(settings.placement_group)
        other.available = other.price != NO_PRICE
        other._clear_caches()
        return other

    def _price_again(self, rows: Iterable[int]) -> None:
        """Of these types the offerings are others than in the table that this is a copy of."""
        self.offered, self.price = self.offered.copy(), self.price.copy()
        names = set()
        for row in rows:
            names.add(self.names[row])
            self.offered[row], self.price[row] = False, NO_PRICE
            for one in self.types[row].offerings:
                if one.zone in self.zones and one.capacity_type in self.capacity_types:
                    self._offer(row, one)
        self._count_as_dearer([one for one in self._shortages if one[0][1] in names])

    def _offer(self, row: int, one: Offering) -> None:
        at = row, self.zones.index(one.zone), self.capacity_types.index(one.capacity_type)
        self.offered[at] = True
        if (one.capacity_type, self.names[row], one.zone) not in self._unavailable:
            self.price[at] = min(int(self.price[at]), one.price_micro_usd_per_hour + one.order)

    def _leave_out(self, group: str) -> None:
        """What EC2 could not place into this placement group of late."""
        if not any(group and zone.endswith(f":{group}") for _, _, zone in self._unavailable):
            return
        for name, row in self.index.items():
            for column, zone in enumerate(self.zones):
                for layer, kind in enumerate(self.capacity_types):
                    if in_group((kind, name, zone), group) in self._unavailable:
                        self.price[row, column, layer] = NO_PRICE

    def _encode_offerings(self, unavailable: frozenset[OfferingKey]) -> None:
        offers = [(i, t.name, o) for i, t in enumerate(self.types) for o in t.offerings]
        wrong = [(name, o) for _, name, o in offers if not _is_price(o.price_micro_usd_per_hour)]
        self.faults = [price_fault(name, o) for name, o in wrong]
        if wrong:
            offers = [o for o in offers if _is_price(o[2].price_micro_usd_per_hour)]
        self.zones = sorted({o.zone for _, _, o in offers})
        self.capacity_types = sorted({o.capacity_type for _, _, o in offers})
        zone_at = {zone: i for i, zone in enumerate(self.zones)}
        capacity_at = {kind: i for i, kind in enumerate(self.capacity_types)}
        shape = (len(self.types), len(self.zones), len(self.capacity_types))
        self.offered = np.zeros(shape, dtype=np.bool_)
        self.price = np.full(shape, NO_PRICE, dtype=np.int64)
        places = [(i, zone_at[o.zone], capacity_at[o.capacity_type]) for i, _, o in offers]
        # A reservation counts like on-demand here: machines are assigned to reservations later (SCH-105).
        amounts = [o.price_micro_usd_per_hour + o.order for _, _, o in offers]
        at = tuple(np.array(places, dtype=np.intp).reshape(len(places), 3).T)
        self.offered[at] = True
        np.minimum.at(self.price, at, np.array(amounts, dtype=np.int64))
        for kind, name, zone in unavailable:
            if name in self.index and zone in zone_at and kind in capacity_at:
                self.price[self.index[name], zone_at[zone], capacity_at[kind]] = NO_PRICE
        self.available = self.price != NO_PRICE

    def _count_as_dearer(self, shortages: Iterable[tuple[OfferingKey, int]]) -> None:
        """Reserved capacity is paid for: it keeps its order."""
        for (kind, name, zone), added in shortages:
            if kind == keys.RESERVED or kind not in self.capacity_types or zone not in self.zones:
                continue
            if name in self.index:
                at = self.index[name], self.zones.index(zone), self.capacity_types.index(kind)
                if self.price[at] != NO_PRICE:
                    self.price[at] += surcharge(int(self.price[at]), added)

    def capacity(self, resource: str) -> Amounts:
        """[types]: the capacity of the whole machine; an amount above 2**61 exceeds every limit."""
        found = self._capacity.get(resource)
        if found is None:
            amounts = [min(t.capacity.get(resource, 0), LARGEST + 1) for t in self.types]
            found = self._capacity[resource] = np.array(amounts, dtype=np.int64)
        return found

    def zone_mask(self, requirements: Requirements, allowed: Mask | None = None) -> Mask:
        """Zones that the requirements allow, within ``allowed``."""
        mask = _allowed(requirements.get(keys.ZONE), self.zones)
        return mask if allowed is None else mask & allowed

    def capacity_mask(self, requirements: Requirements) -> Mask:
        """Capacity types that the requirements allow: no spot or on-demand machine has the labels of a reservation."""
        mask = _allowed(requirements.get(keys.CAPACITY_TYPE), self.capacity_types)
        if needs_reservation(requirements):
            mask &= [kind == keys.RESERVED for kind in self.capacity_types]
        return mask

    def with_offering(self, zones: Mask, capacities: Mask) -> Mask:
        """Types with an available offering in these zones and capacity types."""
        at = (zones.tobytes(), capacities.tobytes())
        found = self._offered.get(at)
        if found is None:
            chosen = self.available[:, zones][:, :, capacities]
            found = self._offered[at] = chosen.any(axis=(1, 2))
        return found

    def matching(self, requirements: Requirements) -> Mask:
        """Types whose labels, zones and capacity types intersect the requirements (SCH-42)."""
        found = self._compatible.get(requirements)
        if found is None:
            masks = [self._meeting(requirement) for requirement in requirements]
            masks.append(self._offered_at_all(requirements))
            found = np.array(np.logical_and.reduce(masks), dtype=np.bool_)
            self._compatible[requirements] = found
        return found

    def _offered_at_all(self, requirements: Requirements) -> Mask:
        """Types offered in an allowed zone and in an allowed capacity type, not necessarily by one offering."""
        zones, capacities = self.zone_mask(requirements), self.capacity_mask(requirements)
        in_zone = self.offered[:, zones].any(axis=(1, 2))
        of_kind = self.offered[:, :, capacities].any(axis=(1, 2))
        found: Mask = np.array(in_zone & of_kind, dtype=np.bool_)
        return found

    def _meeting(self, requirement: Requirement) -> Mask:
        found = self._masks.get(requirement)
        if found is None:
            found = self._masks[requirement] = self._evaluate(requirement)
        return found

    def _evaluate(self, requirement: Requirement) -> Mask:
        distinct, codes = self._coded(requirement.key)
        if requirement.key in _NOT_FROM_TYPES or (
            requirement.key not in keys.WELL_KNOWN and distinct == [()]
        ):
            return np.ones(len(self.types), dtype=np.bool_)
        verdicts = [
            any(map(requirement.has, values)) if values else requirement.accepts_absence
            for values in distinct
        ]
        found: Mask = np.array(verdicts, dtype=np.bool_)[codes]
        return found

    def _coded(self, key: str) -> tuple[list[tuple[str, ...]], Indices]:
        """The distinct values of a label over all types, and [types]: each type's index among them."""
        found = self._codes.get(key)
        if found is None:
            default = (self.region,) if key == keys.REGION else ()
            column = [t.labels.get(key, default) for t in self.types]
            distinct = sorted(set(column)) or [()]
            at = {values: i for i, values in enumerate(distinct)}
            codes = np.array([at[values] for values in column], dtype=np.intp)
            found = self._codes[key] = (distinct, codes)
        return found

    def distinct_values(self, key: str, types: Indices) -> set[str]:
        """The values of a label that machines of these types can have (SCH-12, SCH-71)."""
        if key == keys.ZONE:
            return {self.zones[i] for i in set(self.offered[types].nonzero()[1].tolist())}
        if key == keys.CAPACITY_TYPE:
            found = self.offered[types].nonzero()[2]
            return {self.capacity_types[i] for i in set(found.tolist())}
        distinct, codes = self._coded(key)
        return {value for code in set(codes[types].tolist()) for value in distinct[code]}

    def may_lack(self, key: str, types: Indices) -> bool:
        """Does any of these types have no value for a label?"""
        if key in (keys.ZONE, keys.CAPACITY_TYPE):
            return False
        distinct, codes = self._coded(key)
        return any(not distinct[code] for code in set(codes[types].tolist()))


_RECENT = Recent[tuple[tuple[InstanceType, ...], tuple[object, ...], TypeTable]](4)
"""The last tables, with what they were made of. Their arrays are never written."""


def _is_price(amount: object) -> bool:
    """Zero is a valid price, for a reservation that is paid for already."""
    return isinstance(amount, int) and 0 <= amount <= LARGEST


def _allowed(requirement: Requirement | None, values: list[str]) -> Mask:
    if requirement is None:
        return np.ones(len(values), dtype=np.bool_)
    return np.array([requirement.has(v) for v in values], dtype=np.bool_)


def times(room: Amounts, request: Amounts) -> int:
    """How many equal requests fit, given that at least one does."""
    asked = request > 0
    return int((room[asked] // request[asked]).min())
