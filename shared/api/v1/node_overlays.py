"""karpenter.sh/v1alpha1 NodeOverlay -> domain record (NO-01)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from shared.api.core.metadata import read_metadata
from shared.api.crd.model import read
from shared.api.faults import Parsed
from shared.api.schema.requirements import expressions_of
from shared.api.schema.v1.node_overlay import NodeOverlaySpec
from shared.api.v1.node_pools import amounts_of
from shared.domain.instance_types.overlays import (
    MICRO_USD_PER_HOUR,
    PARTS_PER_MILLION,
    Overlay,
    PriceAdjustment,
)

Json = Mapping[str, Any]
MILLION = 1_000_000
PER_PERCENT = 10_000
"""Parts per million in one percent."""


def parse_node_overlay(raw: Json) -> Parsed[Overlay]:
    """The overlay, or every fault of its spec. Never raises."""
    spec, faults = read(NodeOverlaySpec, raw.get("spec"), at=("spec",))
    if spec is None:
        return Parsed(None, tuple(faults))
    capacity, too_large = amounts_of(spec.capacity, at=("spec", "capacity"))
    if too_large:
        return Parsed(None, too_large)
    meta = read_metadata(raw)
    return Parsed(
        Overlay(
            uid=meta.uid,
            name=meta.name,
            generation=meta.generation,
            weight=spec.weight or 0,
            requirements=expressions_of(spec.requirements),
            price_adjustment=_adjustment(spec.price_adjustment),
            price_micro_usd_per_hour=None if spec.price is None else _times(spec.price, MILLION),
            capacity=capacity,
        )
    )


def _adjustment(text: str | None) -> PriceAdjustment | None:
    """The adjustment written as ``+0.01`` or ``-15.5%``; ``text`` matches the schema's pattern."""
    if text is None:
        return None
    if text.endswith("%"):
        return PriceAdjustment(PARTS_PER_MILLION, _times(text.removesuffix("%"), PER_PERCENT))
    return PriceAdjustment(MICRO_USD_PER_HOUR, _times(text, MILLION))


def _times(number: str, factor: int) -> int:
    """The product as an integer, rounded half to even."""
    return round(Decimal(number) * factor)
