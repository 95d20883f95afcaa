"""From placed pods to the plan as it is written: requirements, types by price, names, cost."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types import Offering
from shared.domain.nodepools import V1ALPHA5
from shared.domain.requirements import IN, Requirement, Requirements
from shared.domain.resources import add
from shared.solver.claims import OpenClaim
from shared.solver.encode import NO_PRICE, Amounts, TypeTable
from shared.solver.plan import PlannedMachine
from shared.solver.pod_classes import effective_requests

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
    suffix = base64.b32encode(digest).decode().lower()[:10]
    return f"{pool[:_LONGEST_POOL_PART]}-{suffix}"


def planned_machine(
    claim: OpenClaim, table: TypeTable, pod_requests: list[dict[str, int]], name: str, most: int
) -> PlannedMachine:
    """One claim, finished (SCH-103, NC-08, NC-09). ``most`` is the cap on the type list."""
    pool = claim.template.pool
    prices = _prices(claim, table)
    order = _by_price(claim, prices)[:most]
    offering = _cheapest_offering(order[0], prices, table)
    overhead = claim.template.daemons.overhead[order[0]]
    requests = add(*map(effective_requests, pod_requests), table.axis.resources(overhead))
    names = tuple(itemgetter(*order)(table.names)) if len(order) > 1 else (table.names[order[0]],)
    kinds = _narrowed_capacity(claim.requirements, prices, order, table)
    return PlannedMachine(
        name=name,
        pool=pool.name,
        pool_key=pool.key,
        node_class=pool.node_class,
        pods=tuple(claim.pods),
        instance_types=names,
        requirements=_expressions(kinds, names, exclusive=pool.generation_api == V1ALPHA5),
        requests={key: requests[key] for key in sorted(requests) if requests[key]},
        labels=_labels(claim, kinds, name),
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        instance_type=names[0],
        offering=offering,
        min_values_relaxed=_is_relaxed(claim),
    )


def price_order(claim: OpenClaim, table: TypeTable) -> list[int]:
    """The claim's types, cheapest first (SCH-103)."""
    return _by_price(claim, _prices(claim, table))


def _by_price(claim: OpenClaim, prices: Amounts) -> list[int]:
    """Of equal prices the first by name: rows are in the names' order."""
    cheapest = prices[claim.types].min(axis=(1, 2))
    found: list[int] = claim.types[np.lexsort((claim.types, cheapest))].tolist()
    return found


def _is_relaxed(claim: OpenClaim) -> bool:
    """SCH-12: is any number of values smaller than its pool's?"""
    for asked in claim.template.requirements:
        now = claim.requirements.get(asked.key)
        if now is not None and (now.min_values or 0) < (asked.min_values or 0):
            return True
    return False


def _prices(claim: OpenClaim, table: TypeTable) -> Amounts:
    """[types, zones, capacity types]; NO_PRICE where the claim cannot go."""
    zones = table.zone_mask(claim.requirements, claim.template.zones)
    kinds = table.capacity_mask(claim.requirements)
    allowed = zones[:, np.newaxis] & kinds[np.newaxis, :]
    return np.where(allowed[np.newaxis], table.price, NO_PRICE)


def _cheapest_offering(index: int, prices: Amounts, table: TypeTable) -> Offering:
    zone, kind = np.unravel_index(int(prices[index].argmin()), prices[index].shape)
    price = int(prices[index][zone, kind])
    return Offering(table.zones[int(zone)], table.capacity_types[int(kind)], price)


def _narrowed_capacity(
    requirements: Requirements, prices: Amounts, order: list[int], table: TypeTable
) -> Requirements:
    """NC-08: only capacity types that one of the types offers now."""
    offered = (prices[order] != NO_PRICE).any(axis=(0, 1))
    kinds = frozenset(k for k, ok in zip(table.capacity_types, offered, strict=True) if ok)
    return requirements.add(Requirement(keys.CAPACITY_TYPE, False, kinds))


def _expressions(
    requirements: Requirements, names: tuple[str, ...], *, exclusive: bool
) -> tuple[Expression, ...]:
    """NC-08: the instance types are listed in price order."""
    others = requirements.without(keys.INSTANCE_TYPE)
    asked = requirements.get(keys.INSTANCE_TYPE)
    least = asked.min_values if asked else None
    types = Expression(keys.INSTANCE_TYPE, IN, names, least)
    written = (*others.expressions(exclusive_bounds=exclusive), types)
    return tuple(sorted(written, key=lambda e: (e.key, e.operator)))


def _labels(claim: OpenClaim, requirements: Requirements, name: str) -> dict[str, str]:
    """NC-06: what is decided, and one value for each custom key that is still open (SCH-10)."""
    pool = claim.template.pool
    found = {**requirements.labels(), **pool.labels, pool.label_key: pool.name}
    for requirement in requirements:
        if requirement.key not in keys.WELL_KNOWN and requirement.key not in found:
            value = _any_value(requirement, name)
            if value is not None:
                found[requirement.key] = value
    return {key: found[key] for key in sorted(found)}


def _any_value(requirement: Requirement, name: str) -> str | None:
    """A member: the first by name, a bound, or ten characters that differ per machine."""
    if not requirement.complement:
        return min(requirement.values, default=None)
    if requirement.accepts_absence:
        return None
    for candidate in (requirement.gte, requirement.lte):
        if candidate is not None and requirement.has(str(candidate)):
            return str(candidate)
    return name[-10:]
