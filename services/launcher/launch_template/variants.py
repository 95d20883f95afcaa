"""Which instance types of a launch share a launch template: pure (LCH-21).

What differs between the types of one launch is a ``Variant``; each variant has a template of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from services.launcher.resolved_class import Resolved
from shared.domain import labels as keys
from shared.domain.instance_types.reservations import CAPACITY_BLOCK
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.sizes import ReservedTexts, reserved_texts
from shared.domain.instance_types.types import EFA, InstanceType, Offering
from shared.domain.machines.machine import Machine
from shared.domain.resources import PODS
from shared.errors import InvalidObject

INTERRUPTIBLE_MARKET = "interruptible-capacity-reservation"
"""The market type of an instance in an interruptible reservation."""


class Choice(msgspec.Struct, frozen=True):
    """One type with the offerings that may be asked for, cheapest first."""

    type: InstanceType
    offerings: tuple[Offering, ...]

    @property
    def price(self) -> int:
        return self.offerings[0].price_micro_usd_per_hour


class Template(msgspec.Struct, frozen=True):
    """A launch template that exists, and which instance types start from it."""

    id: str
    version: int
    image: str
    types: frozenset[str]
    reservation_id: str = ""
    """Only offerings of this capacity reservation start from it; empty: those of none."""


class Variant(msgspec.Struct, frozen=True, order=True):
    """What differs between the instance types of one launch (LCH-21). Variants sort, so requests are repeatable."""

    image: str
    max_pods: int = 0
    efa_interfaces: int = 0
    """0: no pod asks for an Elastic Fabric Adapter (IT-18)."""
    reservation_id: str = ""
    reservation_type: str = ""
    interruptible: bool = False
    spot: bool = False
    """Spot instances also come with a request that carries tags."""
    reserved: ReservedTexts = ()
    """What expressions in the kubelet's settings yield (EC-11)."""

    @property
    def market(self) -> str:
        """EC2's market type; empty for ordinary instances."""
        if self.reservation_type == CAPACITY_BLOCK:
            return CAPACITY_BLOCK
        return INTERRUPTIBLE_MARKET if self.interruptible else ""


def variants(
    machine: Machine, resolved: Resolved, choices: Iterable[Choice]
) -> dict[Variant, frozenset[str]]:
    """Every variant that these choices need, in order, with its instance types. Raises InvalidObject for none."""
    types: dict[Variant, set[str]] = defaultdict(set)
    sizes = SizeSettings.of(machine, resolved.node_class)
    wants_efa = machine.requests.get(EFA, 0) > 0
    for choice in choices:
        image = resolved.images.of(choice.type)
        if image is None:
            continue
        capacity = choice.type.capacity
        efa = capacity.get(EFA, 0) if wants_efa else 0
        reserved = reserved_texts(choice.type, sizes) if sizes.expressions else ()
        for offering in choice.offerings:
            variant = Variant(
                image, capacity.get(PODS, 0), efa, offering.reservation_id,
                offering.reservation_type, offering.interruptible,
                offering.capacity_type == keys.SPOT, reserved,
            )  # fmt: skip
            types[variant].add(choice.type.name)
    if not types:
        raise InvalidObject(
            "no image suits the instance types that are asked for",
            field=resolved.node_class.api.selector_field("amiSelector"),
        )
    return {variant: frozenset(types[variant]) for variant in sorted(types)}
