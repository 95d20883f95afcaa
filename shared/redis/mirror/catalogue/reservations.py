"""The capacity reservations that node classes select, with what is left of each, for the scheduler (IT-04, SCH-105).

One document for each version of a class that selects any: the launcher writes it before it calls that version Ready,
and again every few seconds. So whoever reads a ready class can tell "selects nothing that is free" from "nobody has
looked yet": of a class without a document nothing is planned, or on-demand machines would be bought beside reserved
places that are paid for already. Documents end by themselves: a launcher that is away cannot say what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace
from redis.asyncio import Redis

from shared.domain.instance_types.reservations import Reservation, merged, with_reserved
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.nodepools import NodeClass
from shared.log import get_logger
from shared.redis.bus.connection import ask, redis_errors
from shared.redis.mirror.catalogue.offerings import CatalogueSource

log = get_logger(__name__)

KEPT_SECONDS = 300
NOT_READ = "the capacity reservations of its node class are not read yet; is the launcher running?"
_DECODER = msgspec.json.Decoder(tuple[Reservation, ...])


class ReservationStore:
    """What each class selects, by the class's uid and generation."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._prefix = f"{prefix}reservations:"

    async def put(self, node_class: NodeClass, reservations: Sequence[Reservation]) -> None:
        """Replace what is known of this version of the class. Raises TransientError."""
        with redis_errors("store the capacity reservations"):
            body = msgspec.json.encode(reservations)
            await self._redis.set(self._key(node_class), body, ex=KEPT_SECONDS)

    async def get(self, classes: Iterable[NodeClass]) -> dict[str, tuple[Reservation, ...]]:
        """Class key -> what it selects. A class is left out while nobody wrote of this version of it."""
        asked = list(classes)
        if not asked:
            return {}
        bodies: list[bytes | None] = await ask(
            self._redis, "read the capacity reservations", "MGET", *map(self._key, asked)
        )
        pairs = zip(asked, bodies, strict=True)
        found = {one.key: _decoded(body) for one, body in pairs if body is not None}
        return {key: known for key, known in found.items() if known is not None}

    def _key(self, node_class: NodeClass) -> str:
        return f"{self._prefix}{node_class.uid}:{node_class.generation}"


def _decoded(body: bytes) -> tuple[Reservation, ...] | None:
    """None for what another version of the launcher wrote: as good as nothing, until ours writes."""
    try:
        return _DECODER.decode(body)
    except msgspec.DecodeError as error:
        log.warning("the stored capacity reservations cannot be read", error=str(error))
        return None


class ReservedCatalogues:
    """Another source's catalogue with an offering for each reservation that has room; it lacks the classes whose
    reservations are not known."""

    def __init__(
        self,
        source: CatalogueSource,
        reservations: ReservationStore,
        classes: Callable[[], Iterable[NodeClass]],
    ) -> None:
        """``classes``: those that there are now."""
        self._source = source
        self._reservations = reservations
        self._classes = classes

    async def get(self) -> Catalogue | None:
        """None before the first catalogue."""
        catalogue = await self._source.get()
        if catalogue is None:
            return None
        selecting = [one for one in self._classes() if one.reservation_terms]
        known = await self._reservations.get(selecting)
        lacking = {one.key: NOT_READ for one in selecting if one.key not in known}
        reserved = with_reserved(catalogue, merged(known))
        return replace(reserved, lacking={**reserved.lacking, **lacking}) if lacking else reserved
