"""Instance types for the planner: resources, zones and prices.

Frozen values without I/O. They are built by ``shared.cloud.catalogue.instance_model`` (AWS) or decoded from a ``kind:
InstanceType`` object, travel as JSON (``encode_catalogue`` / ``decode_catalogue``), and are read by the solver. A label
key that is absent means DoesNotExist (IT-45), so ``instance-gpu-count Exists`` works as a filter.

The fields hold mappings, so a value is immutable by convention only (never write to ``labels`` or ``capacity``), and is
not hashable. A document of another version fails to decode with ``msgspec.ValidationError``.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.domain.resources import MEMORY

INSTANCE_NAME = re.compile(r"(^[a-z]+)(\-[0-9]+tb)?([0-9]+).*\.")
"""IT-03: group 1 is the category, group 3 the generation."""


HUGE_PAGES = "hugepages-"
"""Begin of the names of such resources, which NodeOverlays give to types."""
EFA = "vpc.amazonaws.com/efa"
"""The resource of Elastic Fabric Adapters."""


class Offering(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """An offering of a type (IT-04): a zone, a capacity type (spot, on-demand, reserved) and the hourly price."""

    zone: str
    capacity_type: str
    price_micro_usd_per_hour: int
    reservation_id: str = ""
    """Of a reserved offering: the capacity reservation that it is bought from."""
    reservation_type: str = ""
    """default, or capacity-block."""
    interruptible: bool = False
    """Of a reserved offering: whether the owner of the reservation may reclaim the capacity."""
    order: int = 0
    """Order among offerings of equal price, smallest first. Of reserved ones: the on-demand price (IT-07)."""
    left: int = 0
    """Of a reserved offering: available instances, as EC2 reported at ``counted_at`` (SCH-105)."""
    counted_at: float = 0.0
    node_classes: tuple[str, ...] = ()
    """Of a reserved offering: keys of the classes that select it."""
    overlaid: bool = False
    """Whether the price comes from a NodeOverlay (NO-01)."""


class SizeFacts(msgspec.Struct, frozen=True, gc=False):
    """Hardware facts from which pods and disk follow for the settings of a pool (IT-13..15, IT-31)."""

    interfaces: int
    """Network interfaces of the default card."""
    pod_interfaces: int | None
    """Those of them that pods may use; None: pods are not limited by addresses."""
    addresses_per_interface: int
    """IPv4 addresses per network interface."""
    instance_store_gb: int = 0
    """The type's own disks together, in 10**9 bytes."""
    enclaves: bool | None = None
    """Whether EC2 starts Nitro Enclaves on it; None: not known."""


class ForPools(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What machines of these pools have instead, by NodeOverlays that require labels of pools (NO-01)."""

    pools: tuple[str, ...]
    """Keys."""
    capacity: dict[str, int] = {}
    """Extended resources that differ from the type's."""
    prices: tuple[tuple[str, str, int], ...] = ()
    """(zone, capacity type, micro-USD per hour) of offerings whose price differs."""


class InstanceType(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One machine shape, in a catalogue with the usual settings (see ``instance_sizes.adapted``).

    ``labels``: label key -> possible values (IT-40..46). ``capacity`` and ``overhead``: resource -> amount; cpu in
    milli-CPU; memory, ephemeral-storage and hugepages in bytes; pods and extended resources in units. ``overhead`` is
    kubeReserved + systemReserved + eviction threshold (IT-30..33).
    """

    name: str
    labels: dict[str, tuple[str, ...]]
    capacity: dict[str, int]
    overhead: dict[str, int]
    offerings: tuple[Offering, ...]
    facts: SizeFacts | None = None
    """None: a type written by hand, whose amounts apply to every pool."""
    volume_limits: dict[str, int] = {}
    """CSI driver -> volumes that a new machine will attach; a driver that is missing has no known limit (SCH-91)."""
    memory_by_image: dict[str, int] = {}
    """Image id -> bytes that nodes of this type reported, where that differs from ``capacity`` (IT-12)."""
    for_pools: tuple[ForPools, ...] = ()
    """Differences by pool; a pool is in one of them at most. See ``of_pool``."""

    def allocatable(self) -> dict[str, int]:
        """Capacity minus overhead per resource, never below zero (IT-34). The memory is without huge pages."""
        left = {
            resource: max(amount - self.overhead.get(resource, 0), 0)
            for resource, amount in self.capacity.items()
        }
        huge = sum(n for name, n in self.capacity.items() if name.startswith(HUGE_PAGES))
        if not huge or MEMORY not in left:
            return left
        return {**left, MEMORY: max(left[MEMORY] - huge, 0)}


def of_pool(kind: InstanceType, pool_key: str) -> InstanceType:
    """The type as machines of this pool have it."""
    own = next((one for one in kind.for_pools if pool_key in one.pools), None)
    if own is None:
        return kind
    prices = {(zone, kind_): price for zone, kind_, price in own.prices}
    offerings = tuple(_repriced(offering, prices) for offering in kind.offerings)
    if not offerings:  # no other pool has a price for it
        offerings = tuple(Offering(*one, overlaid=True) for one in own.prices)
    capacity = {**kind.capacity, **own.capacity}
    return replace(kind, capacity=capacity, offerings=offerings, for_pools=())


def _repriced(offering: Offering, prices: Mapping[tuple[str, str], int]) -> Offering:
    """A reservation is paid for already."""
    price = prices.get((offering.zone, offering.capacity_type))
    if price is None or offering.reservation_id:
        return offering
    return replace(offering, price_micro_usd_per_hour=price, overlaid=True)


class Catalogue(msgspec.Struct, frozen=True, omit_defaults=True):
    """All types of one region. ``generation`` is a hash of the content: equal hash, equal types."""

    region: str
    generation: str
    types: tuple[InstanceType, ...]
    lacking: dict[str, str] = {}
    """Key of a node class -> which data of its offerings is not available yet. Nothing may be planned for it."""
    unpriced: tuple[InstanceType, ...] = ()
    """Types for which AWS names no price, such as those that an account may try before all may. Nothing is planned with
    them, unless a NodeOverlay says what their on-demand offerings cost."""


class _Document(msgspec.Struct):
    """A catalogue whose types are not decoded yet."""

    region: str
    generation: str
    types: list[msgspec.Raw]
    lacking: dict[str, str] = {}
    unpriced: list[msgspec.Raw] = []


_DOCUMENT_DECODER = msgspec.json.Decoder(_Document)
_TYPE_DECODER = msgspec.json.Decoder(InstanceType)


def encode_catalogue(catalogue: Catalogue) -> bytes:
    """JSON of the whole catalogue."""
    return msgspec.json.encode(catalogue)


def decode_catalogue(document: bytes) -> Catalogue:
    """Inverse of ``encode_catalogue``. Raises ``msgspec.ValidationError`` naming the wrong field.

    Types are decoded one by one and share equal texts: 1,300 types name the same 30 labels, zones and values.
    """
    parts = _DOCUMENT_DECODER.decode(document)
    texts: dict[object, Any] = {}

    def decoded(listed: list[msgspec.Raw]) -> tuple[InstanceType, ...]:
        return tuple(_sharing(_TYPE_DECODER.decode(raw), texts) for raw in listed)

    types, unpriced = decoded(parts.types), decoded(parts.unpriced)
    return Catalogue(parts.region, parts.generation, types, parts.lacking, unpriced)


def _sharing(one: InstanceType, texts: dict[object, Any]) -> InstanceType:
    """The same type, with equal values replaced by shared objects."""

    def share(value: Any) -> Any:
        return texts.setdefault(value, value)

    def amounts(resources: dict[str, int]) -> dict[str, int]:
        return {share(name): amount for name, amount in resources.items()}

    return InstanceType(
        name=share(one.name),
        labels={
            share(k): share(tuple(share(v) for v in values)) for k, values in one.labels.items()
        },
        capacity=amounts(one.capacity),
        overhead=amounts(one.overhead),
        offerings=tuple(
            msgspec.structs.replace(o, zone=share(o.zone), capacity_type=share(o.capacity_type))
            for o in one.offerings
        ),
        facts=share(one.facts),
        volume_limits=amounts(one.volume_limits),
        memory_by_image=amounts(one.memory_by_image),
        for_pools=one.for_pools,
    )
