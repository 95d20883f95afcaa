"""Offerings that often had no capacity of late count as a little dearer, so that others are tried first. Pure.

Each refusal and each interruption counts one, and half as much after each half-life. The price itself stays as it is;
what is added orders offerings of about the same price, like ``Offering.order`` of reserved ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering

OfferingKey = tuple[str, str, str]
"""(capacity type, instance type, zone)."""
Shortages = tuple[tuple[OfferingKey, int], ...]
"""Sorted; by how many millionths of its price an offering counts as dearer."""
MILLION = 1_000_000
MOST_SPREAD = 7
"""EC2's limit of instances per zone in a spread placement group."""
LEVELS = 10
"""Steps from none to the whole margin: a plan's input does not change with every second that passes."""


def in_group(offering: OfferingKey, group: str) -> OfferingKey:
    """The offering for instances in one placement group; for ``group`` "" the offering itself, which is for all.

    What EC2 cannot place into a group it may well have elsewhere. No zone has such a name as the result.
    """
    kind, name, zone = offering
    return (kind, name, f"{zone}:{group}") if group else offering


def decayed(counts: Sequence[int]) -> float:
    """The score of one offering. ``counts``: of each half-life, the present one first."""
    return float(sum(count * 0.5**age for age, count in enumerate(counts)))


def shortages_of(scores: Mapping[OfferingKey, float], margin: float) -> Shortages:
    """``margin``: the share of its price by which an offering counts as dearer that never has capacity."""
    most = int(margin * MILLION)
    found = (
        (offering, most * round(LEVELS * score / (1 + score)) // LEVELS)
        for offering, score in sorted(scores.items())
    )
    return tuple((offering, added) for offering, added in found if added)


def surcharge(price_micro_usd: int, added: int) -> int:
    """What is added to a price, in micro-USD per hour: 1 at least."""
    return max(price_micro_usd * added // MILLION, 1) if added else 0


def weighed(catalogue: Catalogue, shortages: Shortages) -> Catalogue:
    """The catalogue with the surcharges as ``order`` of its offerings, for those who sort offerings themselves."""
    if not shortages:
        return catalogue
    added = dict(shortages)
    names = {name for (_, name, _), _ in shortages}
    types = (_weighed(one, added) if one.name in names else one for one in catalogue.types)
    return replace(catalogue, types=tuple(types))


def _weighed(kind: InstanceType, added: Mapping[OfferingKey, int]) -> InstanceType:
    return replace(kind, offerings=tuple(_ordered(kind.name, o, added) for o in kind.offerings))


def _ordered(name: str, offering: Offering, added: Mapping[OfferingKey, int]) -> Offering:
    share = added.get((offering.capacity_type, name, offering.zone), 0)
    if not share or offering.capacity_type == keys.RESERVED:
        return offering
    return replace(offering, order=surcharge(offering.price_micro_usd_per_hour, share))
