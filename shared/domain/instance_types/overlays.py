"""NodeOverlays: an administrator's corrections of prices and resources of instance types (NO-01). Pure.

Of several overlays for one offering the one with the highest weight applies. Two overlays of equal weight conflict if
they give one offering different prices, or one type different amounts of a resource: then neither is used, and both
report the conflict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering
from shared.domain.requirements import Requirement, Requirements

MICRO_USD_PER_HOUR = "micro_usd_per_hour"
PARTS_PER_MILLION = "parts_per_million"
"""Kinds of PriceAdjustment."""
MILLION = 1_000_000
NOT_OF_A_TYPE = (keys.NODE_POOL, keys.PROVISIONER_NAME, keys.NODE_CLASS, keys.ZONE_ID)
"""Labels that an overlay cannot select by: all pools share one catalogue, and offerings are identified by zone name."""
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


def judged(overlays: Iterable[Overlay], catalogue: Catalogue) -> Judged:
    """Separate the usable overlays from invalid and conflicting ones."""
    refused: dict[str, str] = {}
    listed = []
    for overlay in sorted(overlays, key=lambda one: (-one.weight, one.name)):
        wrong = [e.key for e in overlay.requirements if e.key in NOT_OF_A_TYPE]
        if wrong:
            refused[overlay.name] = f"{wrong[0]} is not a property of an instance type; remove it"
        else:
            listed.append(overlay)
    meant = [(overlay, Requirements.of(overlay.requirements)) for overlay in listed]
    for kind in (*catalogue.types, *catalogue.unpriced) if len(listed) > 1 else ():
        for one, other in _contradictions(kind, meant):
            text = "conflicts with this overlay for {}; give one of them another weight"
            refused.setdefault(one.name, f"{other.name} {text.format(kind.name)}")
            refused.setdefault(other.name, f"{one.name} {text.format(kind.name)}")
    return Judged(tuple(one for one in listed if one.name not in refused), refused)


_Meant = tuple[Overlay, Requirements]


def _contradictions(
    kind: InstanceType, meant: Iterable[_Meant]
) -> Iterator[tuple[Overlay, Overlay]]:
    """Pairs of equal weight that conflict for this type or one of its offerings."""
    here = [(overlay, wanted) for overlay, wanted in meant if _means_type(wanted, kind)]
    amounts: dict[tuple[int, str], Overlay] = {}
    for overlay, _ in here:
        for name, amount in overlay.capacity.items():
            first = amounts.setdefault((overlay.weight, name), overlay)
            if first.capacity[name] != amount:
                yield first, overlay
    for offering in kind.offerings:
        prices: dict[int, Overlay] = {}
        for overlay, wanted in here:
            if overlay.has_price and _means_offering(wanted, offering):
                first = prices.setdefault(overlay.weight, overlay)
                now = offering.price_micro_usd_per_hour
                if first.price(now) != overlay.price(now):
                    yield first, overlay


def overlaid(catalogue: Catalogue, overlays: Iterable[Overlay]) -> Catalogue:
    """The catalogue with these overlays, highest weight first, applied. Its generation is unchanged."""
    meant = [(overlay, Requirements.of(overlay.requirements)) for overlay in overlays]
    if not meant:
        return catalogue
    corrected = [_corrected(kind, meant) for kind in catalogue.types]
    added = [one for kind in catalogue.unpriced if (one := _first_priced(kind, meant)) is not None]
    types = sorted((*corrected, *added), key=lambda one: one.name) if added else corrected
    return replace(catalogue, types=tuple(types))


def _first_priced(kind: InstanceType, meant: Iterable[_Meant]) -> InstanceType | None:
    """A type without a price, with the offerings whose price an overlay says; None without any. An adjustment has
    nothing to adjust."""
    whole = [(one, wanted) for one, wanted in meant if one.price_adjustment is None]
    found = _corrected(kind, whole)
    priced = tuple(offering for offering in found.offerings if offering.overlaid)
    return replace(found, offerings=priced) if priced else None


def _corrected(kind: InstanceType, meant: Iterable[_Meant]) -> InstanceType:
    here = [(overlay, wanted) for overlay, wanted in meant if _means_type(wanted, kind)]
    if not here:
        return kind
    added: dict[str, int] = {}
    for overlay, _ in here:
        added = {**overlay.capacity, **added}
    offerings = tuple(_priced(offering, here) for offering in kind.offerings)
    return replace(kind, capacity={**kind.capacity, **added}, offerings=offerings)


def _priced(offering: Offering, here: Iterable[_Meant]) -> Offering:
    for overlay, wanted in here:
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
