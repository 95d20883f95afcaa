"""From open machines to ``PlannedMachine`` records: requirements, types by price, labels, names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from operator import add

import numpy as np

from shared.domain import labels as keys
from shared.domain.devices.reduction import without_columns
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import Offering
from shared.domain.pools.nodepools import NodePool
from shared.domain.requirements import IN, Requirement, Requirements
from shared.solver.encode import NO_PRICE, Amounts, Indices, Mask, TypeTable
from shared.solver.placement.planned_machines import OpenMachine
from shared.solver.plan import PlannedMachine
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet

_LONGEST_POOL_PART = 242
"""An object name has at most 253 characters; a dash and ten characters of the digest follow."""
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = [one + other for one in _BASE32 for other in _BASE32]
"""Ten bits in base32 (RFC 4648, lower case). base64.b32encode takes a tenth of the time of a plan's records."""


def plan_id(pods: Iterable[str], machines: Iterable[str], nodes: Iterable[str]) -> str:
    """Digest of the UIDs of a plan's input. The same pods on the same cluster give the same id, so a plan that is made
    twice creates each machine once."""
    digest = hashlib.sha256()
    for part in (pods, machines, nodes):
        digest.update("\n".join(sorted(part)).encode() + b"\0")
    return digest.hexdigest()


def machine_name(pool: str, identity: str, index: int) -> str:
    """``<pool>-<ten characters>``, a DNS subdomain like the pool's own name."""
    digest = hashlib.sha256(f"{identity}|{index}".encode()).digest()
    bits = int.from_bytes(digest[:7], "big") >> 6
    suffix = "".join([_PAIRS[bits >> at & 1023] for at in (40, 30, 20, 10, 0)])
    return f"{pool[:_LONGEST_POOL_PART]}-{suffix}"


class PlanWriter:
    """Turns the open machines of one plan into records. Fields that equal machines share are computed once."""

    def __init__(self, table: TypeTable, most: int) -> None:
        """``most``: the largest number of types that a machine lists."""
        self._table = table
        self._most = most
        self._requested = [name if without_columns({name: 1}) else "" for name in table.axis.names]
        """The resources by column; empty for those that stand for devices."""
        self._names = np.array(table.names, dtype=np.object_)
        self._types_cache: dict[tuple[PoolTemplate, Requirements], PricedTypes] = {}
        self._fields_cache: dict[
            tuple[PoolTemplate, Requirements, tuple[bool, ...]], _SharedFields
        ] = {}
        self._choice_cache: dict[tuple[PoolTemplate, Requirements, TypeSet], _TypeChoice] = {}

    def machine(self, machine: OpenMachine, name: str) -> PlannedMachine:
        """The record of one machine (SCH-103, NC-08, NC-09)."""
        pool = machine.template.pool
        at = (machine.template, machine.requirements, machine.types)
        choice = self._choice_cache.get(at)
        if choice is None:
            choice = self._choice_cache[at] = self._choice(machine)
        return PlannedMachine(
            name=name,
            pool=pool.name,
            pool_key=choice.fields.pool_key,
            node_class=pool.node_class,
            pods=tuple(machine.pods),
            instance_types=choice.names,
            requirements=choice.requirements,
            requests=self._requests(machine.content, choice.overhead),
            labels=choice.fields.labels(name),
            taints=pool.taints,
            startup_taints=pool.startup_taints,
            instance_type=choice.names[0],
            offering=choice.offering,
            min_values_relaxed=_is_relaxed(machine),
        )

    def _requests(self, content: tuple[int, ...], overhead: tuple[int, ...]) -> dict[str, int]:
        """What pods and daemons request together, without zero amounts."""
        amounts = zip(self._requested, map(add, content, overhead), strict=True)
        return {name: amount for name, amount in amounts if amount and name}

    def _choice(self, machine: OpenMachine) -> _TypeChoice:
        place = self._priced_types(machine)
        order = place.by_price(machine.types.mask)[: self._most]
        first = int(order[0])
        names = tuple(self._names[order].tolist())
        fields = self._shared_fields(machine, place.kinds(order))
        return _TypeChoice(
            names=names,
            offering=place.cheapest_offering(first),
            overhead=tuple(machine.template.daemons.overhead[first].tolist()),
            requirements=fields.requirements(names),
            fields=fields,
        )

    def _priced_types(self, machine: OpenMachine) -> PricedTypes:
        at = (machine.template, machine.requirements)
        found = self._types_cache.get(at)
        if found is None:
            found = self._types_cache[at] = PricedTypes.of(machine, machine.template.table)
        return found

    def _shared_fields(self, machine: OpenMachine, kinds: tuple[bool, ...]) -> _SharedFields:
        at = (machine.template, machine.requirements, kinds)
        found = self._fields_cache.get(at)
        if found is None:
            narrowed = _narrowed_capacity(machine.requirements, kinds, self._table)
            found = self._fields_cache[at] = _SharedFields.of(narrowed, machine.template.pool)
        return found


@dataclass(slots=True, eq=False)
class _TypeChoice:
    """The fields that machines of one pool with equal requirements and equal types share."""

    names: tuple[str, ...]
    """Names of the types, cheapest first."""
    offering: Offering
    """The cheapest offering of the first type."""
    overhead: tuple[int, ...]
    """Daemon overhead on the first type."""
    requirements: tuple[Expression, ...]
    fields: _SharedFields


@dataclass(slots=True, eq=False)
class PricedTypes:
    """The offerings that a machine's requirements allow, and the types in the order of their cheapest one."""

    table: TypeTable
    prices: Amounts
    """[types, zones, capacity types]; NO_PRICE where the requirements exclude the offering."""
    offered: list[Mask]
    """Per capacity type, [types]: offered in any of the zones?"""
    order: Indices
    """All types, cheapest first; equal prices in the order of names, as the table's rows are sorted by name."""

    @classmethod
    def of(cls, machine: OpenMachine, table: TypeTable) -> PricedTypes:
        """For all machines of a pool with these requirements."""
        zones = table.zone_mask(machine.requirements, machine.template.zones)
        kinds = table.capacity_mask(machine.requirements)
        allowed = zones[:, np.newaxis] & kinds[np.newaxis, :]
        prices = np.where(allowed[np.newaxis], table.price, NO_PRICE)
        cheapest = prices.min(axis=(1, 2), initial=NO_PRICE)
        offered = (prices != NO_PRICE).any(axis=1)
        by_kind = list(np.ascontiguousarray(offered.T))
        return cls(table, prices, by_kind, np.argsort(cheapest, kind="stable"))

    def by_price(self, types: Mask) -> Indices:
        """These types, cheapest first (SCH-103)."""
        found: Indices = self.order[types[self.order]]
        return found

    def kinds(self, types: Indices) -> tuple[bool, ...]:
        """Per capacity type: does one of these types offer it now? (NC-08)"""
        return tuple(bool(offered.take(types).any()) for offered in self.offered)

    def cheapest_offering(self, index: int) -> Offering:
        """The cheapest offering of one type."""
        prices = self.prices[index]
        zone, kind = np.unravel_index(int(prices.argmin()), prices.shape)
        price = int(prices[zone, kind])
        return Offering(self.table.zones[int(zone)], self.table.capacity_types[int(kind)], price)


@dataclass(slots=True, eq=False)
class _SharedFields:
    """The fields of machines of one pool with equal requirements, except types and name."""

    before: tuple[Expression, ...]
    after: tuple[Expression, ...]
    """Requirements before and after the list of types, sorted by key."""
    least: int | None
    pool_key: str
    fixed: dict[str, str]
    open_keys: tuple[str, ...]
    """Keys of labels that get a value of each machine's own."""

    @classmethod
    def of(cls, requirements: Requirements, pool: NodePool) -> _SharedFields:
        exclusive = pool.api.exclusive_bounds
        others = requirements.without(keys.INSTANCE_TYPE)
        fields = sorted(
            others.expressions(exclusive_bounds=exclusive), key=lambda e: (e.key, e.operator)
        )
        asked = requirements.get(keys.INSTANCE_TYPE)
        fixed, open_keys = _labels(requirements, pool)
        return cls(
            before=tuple(e for e in fields if e.key < keys.INSTANCE_TYPE),
            after=tuple(e for e in fields if e.key > keys.INSTANCE_TYPE),
            least=asked.min_values if asked else None,
            pool_key=pool.key,
            fixed=fixed,
            open_keys=open_keys,
        )

    def requirements(self, names: tuple[str, ...]) -> tuple[Expression, ...]:
        """All requirements, with the instance types in price order (NC-08)."""
        types = Expression(keys.INSTANCE_TYPE, IN, names, self.least)
        return (*self.before, types, *self.after)

    def labels(self, name: str) -> dict[str, str]:
        """The machine's labels (NC-06); an open label gets the ten last characters of its name (SCH-10)."""
        if not self.open_keys:
            return dict(self.fixed)
        found = {**self.fixed, **dict.fromkeys(self.open_keys, name[-10:])}
        return {key: found[key] for key in sorted(found)}


def _is_relaxed(machine: OpenMachine) -> bool:
    """Is minValues of any key lower than in the machine's pool? (SCH-12)"""
    if not machine.template.requirements.asks_for_values:
        return False
    for asked in machine.template.requirements:
        now = machine.requirements.get(asked.key)
        if now is not None and (now.min_values or 0) < (asked.min_values or 0):
            return True
    return False


def _narrowed_capacity(
    requirements: Requirements, kinds: tuple[bool, ...], table: TypeTable
) -> Requirements:
    """Requirements without the capacity types that no listed type offers (NC-08)."""
    offered = frozenset(k for k, ok in zip(table.capacity_types, kinds, strict=True) if ok)
    return requirements.add(Requirement(keys.CAPACITY_TYPE, False, offered))


def _labels(requirements: Requirements, pool: NodePool) -> tuple[dict[str, str], tuple[str, ...]]:
    """Labels, sorted, and the custom keys whose requirement allows any value (NC-06, SCH-10).

    The labels include one allowed value for each other custom key. A key that allows any value gets one from the
    machine's name.
    """
    found = {**requirements.labels(), **pool.labels, pool.label_key: pool.name}
    open_keys = []
    for requirement in requirements:
        if requirement.key not in keys.WELL_KNOWN and requirement.key not in found:
            value = _any_value(requirement)
            if value is not None:
                found[requirement.key] = value
            elif requirement.complement and not requirement.accepts_absence:
                open_keys.append(requirement.key)
    return {key: found[key] for key in sorted(found)}, tuple(open_keys)


def _any_value(requirement: Requirement) -> str | None:
    """An allowed value: the first by name, or a bound; None when none is allowed or every text is."""
    if not requirement.complement:
        return min(requirement.values, default=None)
    if requirement.accepts_absence:
        return None
    for candidate in (requirement.gte, requirement.lte):
        if candidate is not None and requirement.has(str(candidate)):
            return str(candidate)
    return None
