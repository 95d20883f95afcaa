"""From placed pods to the plan as it is written: requirements, types by price, names, cost."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import Offering
from shared.domain.pools.nodepools import NodePool
from shared.domain.requirements import IN, Requirement, Requirements
from shared.solver.encode import NO_PRICE, Amounts, Indices, Mask, TypeTable
from shared.solver.placement.planned_machines import OpenClaim
from shared.solver.plan import PlannedMachine
from shared.solver.pools.templates import PoolTemplate
from shared.solver.pools.type_sets import TypeSet

_LONGEST_POOL_PART = 242
"""An object name has at most 253 characters; ten of the digest and a dash follow."""


def plan_id(pods: Iterable[str], machines: Iterable[str], nodes: Iterable[str]) -> str:
    """Digest of the UIDs that a plan is about. The same pods on the same cluster give the same id,
    so
    a plan that is made twice creates each machine once (R4)."""
    digest = hashlib.sha256()
    for part in (pods, machines, nodes):
        digest.update("\n".join(sorted(part)).encode() + b"\0")
    return digest.hexdigest()


def machine_name(pool: str, identity: str, index: int) -> str:
    """``<pool>-<ten characters>``, a DNS subdomain like the pool's own name."""
    digest = hashlib.sha256(f"{identity}|{index}".encode()).digest()
    suffix = base64.b32encode(digest[:10]).decode().lower()[:10]
    return f"{pool[:_LONGEST_POOL_PART]}-{suffix}"


class Writer:
    """Finishes the claims of one plan. What machines of equal requirements share is worked out once."""

    def __init__(self, table: TypeTable, most: int) -> None:
        """``most`` is the cap on the list of types."""
        self._table = table
        self._most = most
        self._names = np.array(table.names, dtype=np.object_)
        self._places: dict[tuple[PoolTemplate, Requirements], Place] = {}
        self._written: dict[tuple[PoolTemplate, Requirements, tuple[bool, ...]], _Written] = {}
        self._choices: dict[tuple[PoolTemplate, Requirements, TypeSet], _Choice] = {}

    def machine(self, claim: OpenClaim, name: str) -> PlannedMachine:
        """One claim, finished (SCH-103, NC-08, NC-09)."""
        pool = claim.template.pool
        at = (claim.template, claim.requirements, claim.types)
        choice = self._choices.get(at)
        if choice is None:
            choice = self._choices[at] = self._choice(claim)
        return PlannedMachine(
            name=name,
            pool=pool.name,
            pool_key=pool.key,
            node_class=pool.node_class,
            pods=tuple(claim.pods),
            instance_types=choice.names,
            requirements=choice.requirements,
            requests=self._table.axis.resources(claim.used + choice.overhead),
            labels=choice.written.labels(name),
            taints=pool.taints,
            startup_taints=pool.startup_taints,
            instance_type=choice.names[0],
            offering=choice.offering,
            min_values_relaxed=_is_relaxed(claim),
        )

    def _choice(self, claim: OpenClaim) -> _Choice:
        place = self._place(claim)
        order = place.by_price(claim.types.mask)[: self._most]
        first = int(order[0])
        names = tuple(self._names[order].tolist())
        written = self._writing(claim, place.kinds(order))
        return _Choice(
            names=names,
            offering=place.cheapest_offering(first),
            overhead=claim.template.daemons.overhead[first],
            requirements=written.requirements(names),
            written=written,
        )

    def _place(self, claim: OpenClaim) -> Place:
        at = (claim.template, claim.requirements)
        found = self._places.get(at)
        if found is None:
            found = self._places[at] = Place.of(claim, self._table)
        return found

    def _writing(self, claim: OpenClaim, kinds: tuple[bool, ...]) -> _Written:
        at = (claim.template, claim.requirements, kinds)
        found = self._written.get(at)
        if found is None:
            narrowed = _narrowed_capacity(claim.requirements, kinds, self._table)
            found = self._written[at] = _Written.of(narrowed, claim.template.pool)
        return found


@dataclass(slots=True, eq=False)
class _Choice:
    """What claims of one pool with equal requirements and equal types have in common."""

    names: tuple[str, ...]
    """Of the types, cheapest first."""
    offering: Offering
    """The cheapest of the first type."""
    overhead: Amounts
    """Of the daemons on the first type."""
    requirements: tuple[Expression, ...]
    written: _Written


@dataclass(slots=True, eq=False)
class Place:
    """Where a claim may be bought, and the types in the order of what they cost there."""

    table: TypeTable
    prices: Amounts
    """[types, zones, capacity types]; NO_PRICE where the claim cannot go."""
    offered: list[Mask]
    """Of each capacity type: the types that offer it in any of the zones."""
    order: Indices
    """All types, cheapest first. Of equal prices the first by name: rows are in the names' order."""

    @classmethod
    def of(cls, claim: OpenClaim, table: TypeTable) -> Place:
        """The place of all claims of a pool with these requirements."""
        zones = table.zone_mask(claim.requirements, claim.template.zones)
        kinds = table.capacity_mask(claim.requirements)
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
        """NC-08: is each capacity type offered by one of these types now?"""
        return tuple(bool(offered.take(types).any()) for offered in self.offered)

    def cheapest_offering(self, index: int) -> Offering:
        """Of one type."""
        prices = self.prices[index]
        zone, kind = np.unravel_index(int(prices.argmin()), prices.shape)
        price = int(prices[zone, kind])
        return Offering(self.table.zones[int(zone)], self.table.capacity_types[int(kind)], price)


@dataclass(slots=True, eq=False)
class _Written:
    """What equal requirements of one pool say on every machine, apart from its types and its name."""

    before: tuple[Expression, ...]
    after: tuple[Expression, ...]
    """Sorted by key; the list of types stands between them."""
    least: int | None
    fixed: dict[str, str]
    open_keys: tuple[str, ...]
    """Labels that get a value of the machine's own."""

    @classmethod
    def of(cls, requirements: Requirements, pool: NodePool) -> _Written:
        exclusive = pool.api.exclusive_bounds
        others = requirements.without(keys.INSTANCE_TYPE)
        written = sorted(
            others.expressions(exclusive_bounds=exclusive), key=lambda e: (e.key, e.operator)
        )
        asked = requirements.get(keys.INSTANCE_TYPE)
        fixed, open_keys = _labels(requirements, pool)
        return cls(
            before=tuple(e for e in written if e.key < keys.INSTANCE_TYPE),
            after=tuple(e for e in written if e.key > keys.INSTANCE_TYPE),
            least=asked.min_values if asked else None,
            fixed=fixed,
            open_keys=open_keys,
        )

    def requirements(self, names: tuple[str, ...]) -> tuple[Expression, ...]:
        """NC-08: the instance types are listed in price order."""
        types = Expression(keys.INSTANCE_TYPE, IN, names, self.least)
        return (*self.before, types, *self.after)

    def labels(self, name: str) -> dict[str, str]:
        """NC-06; an open label gets ten characters that differ per machine (SCH-10)."""
        if not self.open_keys:
            return dict(self.fixed)
        found = {**self.fixed, **dict.fromkeys(self.open_keys, name[-10:])}
        return {key: found[key] for key in sorted(found)}


def _is_relaxed(claim: OpenClaim) -> bool:
    """SCH-12: is any number of values smaller than its pool's?"""
    if not claim.template.requirements.asks_for_values:
        return False
    for asked in claim.template.requirements:
        now = claim.requirements.get(asked.key)
        if now is not None and (now.min_values or 0) < (asked.min_values or 0):
            return True
    return False


def _narrowed_capacity(
    requirements: Requirements, kinds: tuple[bool, ...], table: TypeTable
) -> Requirements:
    """NC-08: requirements of a NodeClaim."""
    offered = frozenset(k for k, ok in zip(table.capacity_types, kinds, strict=True) if ok)
    return requirements.add(Requirement(keys.CAPACITY_TYPE, False, offered))


def _labels(requirements: Requirements, pool: NodePool) -> tuple[dict[str, str], tuple[str, ...]]:
    """NC-06: what is decided, sorted, and one value for each custom key that is still open (SCH-10); the keys for
    which only the machine's name tells one."""
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
    """A member: the first by name, or a bound; None where there is none, or any text is one."""
    if not requirement.complement:
        return min(requirement.values, default=None)
    if requirement.accepts_absence:
        return None
    for candidate in (requirement.gte, requirement.lte):
        if candidate is not None and requirement.has(str(candidate)):
            return str(candidate)
    return None
