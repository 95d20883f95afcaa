"""Instance types as the planner sees them: what a machine offers, where, and at what price.

Frozen values without I/O. They are built by ``shared.cloud.instance_model`` (AWS) or decoded from a
``kind: InstanceType`` object, travel as JSON (``encode_catalogue`` / ``decode_catalogue``), and are
read by the solver. A label key that is absent means DoesNotExist (IT-45), so ``instance-gpu-count
Exists`` works as a filter.

What may go wrong: the fields hold mappings, so a value is immutable by convention only (never write
to ``labels`` or ``capacity``), and is not hashable. A document of another version fails to decode
with ``msgspec.ValidationError``.
"""

import msgspec


class Offering(msgspec.Struct, frozen=True):
    """One place to buy a type (IT-04): a zone, ``spot`` or ``on-demand``, and the hourly price."""

    zone: str
    capacity_type: str
    price_micro_usd_per_hour: int


class InstanceType(msgspec.Struct, frozen=True):
    """One machine shape.

    ``labels``: label key -> possible values (IT-40..46). ``capacity`` and ``overhead``: resource ->
    amount; cpu in milli-CPU; memory, ephemeral-storage and hugepages in bytes; pods and extended
    resources in units. ``overhead`` is kubeReserved + systemReserved + eviction threshold
    (IT-30..33).
    """

    name: str
    labels: dict[str, tuple[str, ...]]
    capacity: dict[str, int]
    overhead: dict[str, int]
    offerings: tuple[Offering, ...]

    def allocatable(self) -> dict[str, int]:
        """Capacity minus overhead per resource, never below zero (IT-34)."""
        return {
            resource: max(amount - self.overhead.get(resource, 0), 0)
            for resource, amount in self.capacity.items()
        }


class Catalogue(msgspec.Struct, frozen=True):
    """All types of one region. ``generation`` is a hash of the content: equal hash, equal types."""

    region: str
    generation: str
    types: tuple[InstanceType, ...]


_CATALOGUE_DECODER = msgspec.json.Decoder(Catalogue)


def encode_catalogue(catalogue: Catalogue) -> bytes:
    """JSON of the whole catalogue."""
    return msgspec.json.encode(catalogue)


def decode_catalogue(document: bytes) -> Catalogue:
    """Inverse of ``encode_catalogue``. Raises ``msgspec.ValidationError`` naming the field."""
    return _CATALOGUE_DECODER.decode(document)
