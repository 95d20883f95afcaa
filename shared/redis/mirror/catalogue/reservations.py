"""Capacity reservations that node classes select, with the free capacity of each, for the scheduler (IT-04, SCH-105).

One document per generation of a class with reservation terms. The launcher writes it before it sets that generation
Ready, and again every few seconds. So a reader of a ready class can distinguish "no free capacity" from "not read yet":
nothing is planned for a class without a document, because on-demand machines would be bought beside reserved capacity
that is paid for already. Documents expire: without a running launcher the free capacity is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec.structs import replace
from redis.asyncio import Redis

from shared.domain.instance_types.reservations import Reservation, merged, with_reserved
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.nodepools import NodeClass
from shared.log import get_logger
from shared.redis.bus.connection import call, redis_errors
from shared.redis.mirror.catalogue.offerings import CatalogueSource

log = get_logger(__name__)

RESERVATIONS_TTL_SECONDS = 300
NOT_READ = "the capacity reservations of its node class are not read yet; is the launcher running?"
_DECODER = msgspec.json.Decoder(tuple[Reservation, ...])


class ReservationStore:
    """The reservations of each class, by the class's uid and generation."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}reservations:"

    async def put(self, node_class: NodeClass, reservations: Sequence[Reservation]) -> None:
        """Replace the reservations of this generation of the class. Raises TransientError."""
        async with redis_errors("store the capacity reservations"):
            body = msgspec.json.encode(reservations)
            await self._redis.set(self._key(node_class), body, ex=RESERVATIONS_TTL_SECONDS)

    async def get(self, classes: Iterable[NodeClass]) -> dict[str, tuple[Reservation, ...]]:
        """Class key -> its reservations. A class is absent while its current generation has no document."""
        listed = list(classes)
        if not listed:
            return {}
        bodies: list[bytes | None] = await call(
            self._redis, "read the capacity reservations", "MGET", *map(self._key, listed)
        )
        pairs = zip(listed, bodies, strict=True)
        found = {one.key: _decoded(body) for one, body in pairs if body is not None}
        return {key: known for key, known in found.items() if known is not None}

    def _key(self, node_class: NodeClass) -> str:
        return f"{self._prefix}{node_class.uid}:{node_class.generation}"


def _decoded(body: bytes) -> tuple[Reservation, ...] | None:
    """None for a document of another version: it counts as absent until the launcher writes a new one."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        log.warning("the stored capacity reservations cannot be read", error=str(error))
        return None


@dataclass
class ReservedCatalogues:
    """Another source's catalogue with an offering for each reservation that has free capacity. Its ``lacking`` names
    the classes whose reservations are not read yet."""

    source: CatalogueSource
    reservations: ReservationStore
    classes: Callable[[], Iterable[NodeClass]]
    """Returns the node classes that exist now."""

    async def get(self) -> Catalogue | None:
        """The catalogue with reserved offerings; None before the first catalogue."""
        catalogue = await self.source.get()
        if catalogue is None:
            return None
        selecting = [one for one in self.classes() if one.reservation_terms]
        known = await self.reservations.get(selecting)
        lacking = {one.key: NOT_READ for one in selecting if one.key not in known}
        reserved = with_reserved(catalogue, merged(known))
        return replace(reserved, lacking={**reserved.lacking, **lacking}) if lacking else reserved
