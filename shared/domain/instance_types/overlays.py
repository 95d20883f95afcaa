"""NodeOverlays: an administrator's corrections of prices and resources of instance types (NO-01). Pure.

Of several overlays for one offering the one with the highest weight applies. Two overlays of equal weight conflict if
they give one offering different prices, or one type different amounts of a resource: then neither is used, and both
report the conflict. An overlay that requires labels of pools, such as their name, holds for their machines alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import Catalogue, ForPools, InstanceType, Offering
from shared.domain.pools.nodepools import NodePool, pool_requirements
from shared.domain.requirements import Requirement, Requirements
from shared.errors import InvalidObject

MICRO_USD_PER_HOUR = "micro_usd_per_hour"
PARTS_PER_MILLION = "parts_per_million"
"""Kinds of PriceAdjustment."""
MILLION = 1_000_000
GATE_OFF_REASON = "FeatureGateOff"
"""Reason of an overlay's condition Ready while the scheduler's and the launcher's gate is off."""
NOT_OF_A_TYPE = (keys.ZONE_ID,)
"""Labels that an overlay cannot select by: offerings are identified by zone name."""
OF_A_POOL = (keys.NODE_POOL, keys.PROVISIONER_NAME, keys.NODE_CLASS)
"""Labels by which a pool and its class are named, beside those of its template."""
OF_AN_OFFERING = (keys.ZONE, keys.CAPACITY_TYPE)


class PriceAdjustment(msgspec.Struct, frozen=True):
    """A change of a price by ``amount`` (negative for a reduction), in the unit ``kind``."""

    kind: str
    amount: int

    def of(self, price: int) -> int:
        """The corrected price, at least 0."""
        share = self.kind == PARTS_PER_MILLION
        added = round(price * self.amount / MILLION) if share else self.amount
        return max(price + added, 0)


class Overlay(msgspec.Struct, frozen=True, omit_defaults=True):
    """One overlay, with a price, a price adjustment, or neither."""

    uid: str
    name: str
    generation: int = 0
    weight: int = 0
    """The highest weight applies; of conflicting overlays with equal weight none does."""
    requirements: tuple[Expression, ...] = ()
    """Which instance types and offerings the overlay applies to; empty: all."""
    price_adjustment: PriceAdjustment | None = None
    price_micro_usd_per_hour: int | None = None
    capacity: dict[str, int] = {}
    """Extended resources beside those of the instance type."""

    @property
    def has_price(self) -> bool:
        """Whether the overlay changes prices."""
        return self.price_adjustment is not None or self.price_micro_usd_per_hour is not None

    def price(self, now: int) -> int:
        """The price of an offering with this overlay, in micro-USD per hour. ``now``: EC2's price."""
        if self.price_micro_usd_per_hour is not None:
            return self.price_micro_usd_per_hour
        return self.price_adjustment.of(now) if self.price_adjustment else now


class Judged(msgspec.Struct, frozen=True):
    """Which overlays apply, and why the others do not."""

    used: tuple[Overlay, ...]
    """Heaviest first; of equal weight by name."""
    refused: dict[str, str]
    """Name -> reason, for people."""
    idle: dict[str, str] = {}
    """Name -> why a usable one corrects nothing, for people: a pool or type is misspelled, or does not exist yet."""


class PoolScope(NamedTuple):
    """By what overlays know a pool: its requirements, the labels of its template, its own name and its class's."""

    key: str
    requirements: Requirements


def scope_of(pool: NodePool) -> PoolScope | None:
    """None for a pool whose requirements cannot be read: nothing is planned for it."""
    try:
        return PoolScope(pool.key, pool_requirements(pool))
    except InvalidObject:
        return None


def asks_for_pools(overlay: Overlay) -> bool:
    """May it hold for the machines of some pools alone? False: for all of them."""
    return any(keys.normalise(e.key) not in keys.WELL_KNOWN for e in overlay.requirements)


class _Meant(NamedTuple):
    """An overlay. ``wanted`` of types and offerings, ``asked`` of pools."""

    overlay: Overlay
    wanted: Requirements
    asked: Requirements

    def holds_for(self, pool: PoolScope) -> bool:
        rules = ((rule, pool.requirements.get(rule.key)) for rule in self.asked)
        return all(
            rule.accepts_absence if own is None or own.is_empty else rule.intersects(own)
            for rule, own in rules
        )


def _read(overlays: Iterable[Overlay], catalogue: Catalogue) -> list[_Meant]:
    """A label that is neither the cloud's nor a type's own is a pool's."""
    overlays = list(overlays)
    of_types = keys.WELL_KNOWN
    if any(map(asks_for_pools, overlays)):
        kinds = (*catalogue.types, *catalogue.unpriced)
        of_types = of_types.union(*(kind.labels for kind in kinds)) - set(OF_A_POOL)
    found = []
    for overlay in overlays:
        whole = Requirements.of(overlay.requirements)
        asked = Requirements(rule for rule in whole if rule.key not in of_types)
        found.append(_Meant(overlay, whole.without(*(rule.key for rule in asked)), asked))
    return found


_Groups = dict[tuple[str, ...], tuple[list[_Meant], list[str]]]
"""Names of the overlays for some pools alone -> (those and the general ones in order, keys of the pools)."""


def _groups(meant: list[_Meant], pools: Iterable[PoolScope]) -> _Groups:
    """Pools for whose machines other overlays hold than for all."""
    found: _Groups = {}
    for pool in sorted(pools, key=lambda one: one.key) if any(m.asked for m in meant) else ():
        here = [one for one in meant if one.holds_for(pool)]
        name = tuple(one.overlay.name for one in here if one.asked)
        if name:
            found.setdefault(name, (here, []))[1].append(pool.key)
    return found


def judged(
    overlays: Iterable[Overlay], catalogue: Catalogue, pools: Iterable[PoolScope] = ()
) -> Judged:
    """Separate the usable overlays from invalid and conflicting ones. Those for different pools do not conflict."""
    refused: dict[str, str] = {}
    pools, listed = tuple(pools), []
    for overlay in sorted(overlays, key=lambda one: (-one.weight, one.name)):
        wrong = [e.key for e in overlay.requirements if e.key in NOT_OF_A_TYPE]
        if wrong:
            refused[overlay.name] = f"{wrong[0]} is not a property of an instance type; remove it"
        else:
            listed.append(overlay)
    meant = _read(listed, catalogue)
    together = [here for here, _ in _groups(meant, pools).values()]
    for here in (_general(meant), *together):
        for kind in (*catalogue.types, *catalogue.unpriced) if len(here) > 1 else ():
            for one, other in _contradictions(kind, here):
                text = "conflicts with this overlay for {}; give one of them another weight"
                refused.setdefault(one.name, f"{other.name} {text.format(kind.name)}")
                refused.setdefault(other.name, f"{one.name} {text.format(kind.name)}")
    usable = [one for one in meant if one.overlay.name not in refused]
    idle = {one.overlay.name: why for one in usable if (why := _why_idle(one, catalogue, pools))}
    return Judged(tuple(one.overlay for one in usable), refused, idle)


def _why_idle(meant: _Meant, catalogue: Catalogue, pools: Iterable[PoolScope]) -> str:
    """Empty when it may correct something."""
    if meant.asked and not any(map(meant.holds_for, pools)):
        return f"it has no effect: no pool has {meant.asked}"
    kinds = (*catalogue.types, *catalogue.unpriced)
    if kinds and not any(_means_type(meant.wanted, kind) for kind in kinds):
        return f"it has no effect: no instance type of the region has {meant.wanted}"
    return ""


def _general(meant: Iterable[_Meant]) -> list[_Meant]:
    """Those that hold for all pools."""
    return [one for one in meant if not one.asked]


def _contradictions(
    kind: InstanceType, meant: Iterable[_Meant]
) -> Iterator[tuple[Overlay, Overlay]]:
    """Pairs of equal weight that conflict for this type or one of its offerings."""
    here = [one for one in meant if _means_type(one.wanted, kind)]
    amounts: dict[tuple[int, str], Overlay] = {}
    for overlay, _, _ in here:
        for name, amount in overlay.capacity.items():
            first = amounts.setdefault((overlay.weight, name), overlay)
            if first.capacity[name] != amount:
                yield first, overlay
    for offering in kind.offerings:
        prices: dict[int, Overlay] = {}
        for overlay, wanted, _ in here:
            if overlay.has_price and _means_offering(wanted, offering):
                first = prices.setdefault(overlay.weight, overlay)
                now = offering.price_micro_usd_per_hour
                if first.price(now) != overlay.price(now):
                    yield first, overlay


def overlaid(
    catalogue: Catalogue, overlays: Iterable[Overlay], pools: Iterable[PoolScope] = ()
) -> Catalogue:
    """The catalogue with these overlays, highest weight first, applied. Its generation is unchanged.

    What holds for some pools alone is in the types' ``for_pools``.
    """
    meant = _read(overlays, catalogue)
    if not meant:
        return catalogue
    general, groups = _general(meant), _groups(meant, pools)
    types = [
        _with_pools(kind, _corrected(kind, general), groups, _corrected) for kind in catalogue.types
    ]
    for kind in catalogue.unpriced:
        base = _first_priced(kind, general) or replace(kind, offerings=())
        found = _with_pools(kind, base, groups, _first_priced)
        if found.offerings or found.for_pools:
            types.append(found)
    types.sort(key=lambda one: one.name)
    return replace(catalogue, types=tuple(types))


def _with_pools(
    kind: InstanceType,
    base: InstanceType,
    groups: _Groups,
    corrected: Callable[[InstanceType, list[_Meant]], InstanceType | None],
) -> InstanceType:
    """``base``, which is ``kind`` with what holds for all, and what differs for pools."""
    found = []
    for here, pools in groups.values():
        if not any(one.asked and _means_type(one.wanted, kind) for one in here):
            continue
        own = corrected(kind, here)
        if own is not None and (different := _difference(base, own, pools)) is not None:
            found.append(different)
    return replace(base, for_pools=tuple(found)) if found else base


def _difference(base: InstanceType, own: InstanceType, pools: list[str]) -> ForPools | None:
    capacity = {n: a for n, a in own.capacity.items() if base.capacity.get(n) != a}
    same = set(base.offerings)
    prices = tuple(
        (one.zone, one.capacity_type, one.price_micro_usd_per_hour)
        for one in own.offerings
        if one not in same
    )
    return ForPools(tuple(pools), capacity, prices) if capacity or prices else None


def _first_priced(kind: InstanceType, meant: list[_Meant]) -> InstanceType | None:
    """A type without a price, with the offerings whose price an overlay says; None without any. An adjustment has
    nothing to adjust."""
    whole = [one for one in meant if one.overlay.price_adjustment is None]
    found = _corrected(kind, whole)
    priced = tuple(offering for offering in found.offerings if offering.overlaid)
    return replace(found, offerings=priced) if priced else None


def _corrected(kind: InstanceType, meant: list[_Meant]) -> InstanceType:
    here = [one for one in meant if _means_type(one.wanted, kind)]
    if not here:
        return kind
    added: dict[str, int] = {}
    for overlay, _, _ in here:
        added = {**overlay.capacity, **added}
    offerings = tuple(_priced(offering, here) for offering in kind.offerings)
    return replace(kind, capacity={**kind.capacity, **added}, offerings=offerings)


def _priced(offering: Offering, here: Iterable[_Meant]) -> Offering:
    for overlay, wanted, _ in here:
        if overlay.has_price and _means_offering(wanted, offering):
            price = overlay.price(offering.price_micro_usd_per_hour)
            return replace(offering, price_micro_usd_per_hour=price, overlaid=True)
    return offering


def _means_type(wanted: Requirements, kind: InstanceType) -> bool:
    """Whether the requirements match this type and one of its offerings."""
    own = (rule for rule in wanted if rule.key not in OF_AN_OFFERING)
    return all(_meets(rule, kind.labels.get(rule.key)) for rule in own) and any(
        _means_offering(wanted, offering) for offering in kind.offerings
    )


def _meets(rule: Requirement, values: tuple[str, ...] | None) -> bool:
    """A label that a type does not have is absent (IT-45)."""
    return rule.accepts_absence if values is None else any(map(rule.has, values))


def _means_offering(wanted: Requirements, offering: Offering) -> bool:
    labels = zip(OF_AN_OFFERING, (offering.zone, offering.capacity_type), strict=True)
    rules = ((wanted.get(key), value) for key, value in labels)
    return all(rule is None or rule.has(value) for rule, value in rules)
