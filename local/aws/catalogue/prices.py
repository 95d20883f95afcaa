"""Prices: on-demand from Dovetail's price book, spot from a hash that is the same in every run.

The book has real Linux on-demand prices of one region (its ``source`` key names date and origin), which are used for
every region. A type that the book lacks has a price by formula. Spot prices are invented: 25-60 % of on-demand, fixed
per (type, zone), so a test can compute them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from local.aws.catalogue.types import InstanceTypeFacts
from shared.cloud.catalogue.reference_data import FALLBACK_REGION, listed_prices

SPOT_LOWEST_SHARE = 0.25
SPOT_HIGHEST_SHARE = 0.60


def formula_price(facts: InstanceTypeFacts) -> float:
    """USD per hour of a type that the book lacks, rounded to five digits: within a few percent of the list prices of m5
    and r5.
    """
    arm = 0.8 if facts.architecture == "arm64" else 1.0
    base = 0.0255 * facts.vcpus + 0.0056 * facts.memory_mib / 1024
    return round(base * arm + 0.9 * facts.gpu_count, 5)


def spot_share(instance_type: str, zone: str) -> float:
    """The spot price of this pool as a share of its on-demand price, 0.25 to 0.60."""
    digest = hashlib.sha256(f"{instance_type}/{zone}".encode()).digest()
    position = int.from_bytes(digest[:4], "big") / 0xFFFFFFFF
    return SPOT_LOWEST_SHARE + (SPOT_HIGHEST_SHARE - SPOT_LOWEST_SHARE) * position


class PriceBook:
    """Hourly USD prices of every known instance type, also of those that no price list names: ``unlisted``."""

    def __init__(
        self,
        types: Mapping[str, InstanceTypeFacts],
        listed: Mapping[str, float],
        unlisted: Collection[str] = (),
    ) -> None:
        self.unlisted = frozenset(unlisted)
        self._on_demand = {
            name: float(listed.get(name) or formula_price(facts)) for name, facts in types.items()
        }

    def on_demand(self, instance_type: str) -> float:
        """The on-demand price. Raises KeyError for an unknown type."""
        return self._on_demand[instance_type]

    def spot(self, instance_type: str, zone: str) -> float:
        """Raises KeyError for an unknown type."""
        share = spot_share(instance_type, zone)
        return round(self._on_demand[instance_type] * share, 6)

    def price(self, instance_type: str, zone: str, capacity_type: str) -> float:
        """The price of one pool; ``capacity_type`` is ``spot`` or ``on-demand``."""
        if capacity_type == "spot":
            return self.spot(instance_type, zone)
        return self.on_demand(instance_type)


def load_listed_prices() -> dict[str, float]:
    """Instance type -> USD per hour."""
    return listed_prices()[FALLBACK_REGION]
