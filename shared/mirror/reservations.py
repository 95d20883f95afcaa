"""The capacity reservations that node classes select, with what is left of each, for the scheduler (IT-04, SCH-105).

The launcher writes them every minute. They end by themselves: a launcher that is away cannot say what is left, and
machines that were planned into a full reservation would only have to be planned again.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from redis.asyncio import Redis

from shared.bus.connection import ask, redis_errors
from shared.domain.instance_types import Catalogue
from shared.domain.reservations import Reservation, with_reserved
from shared.log import get_logger
from shared.mirror.offerings import CatalogueSource

log = get_logger(__name__)

KEPT_SECONDS = 300
_DECODER = msgspec.json.Decoder(tuple[Reservation, ...])


class ReservationStore:
    """All of them in one document."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._key = f"{prefix}reservations"

    async def put(self, reservations: Sequence[Reservation]) -> None:
        """Replace what is known."""
        with redis_errors("store the capacity reservations"):
            await self._redis.set(self._key, msgspec.json.encode(reservations), ex=KEPT_SECONDS)

    async def get(self) -> tuple[Reservation, ...]:
        """None of them while nobody wrote, or when another version did."""
        body: bytes | None = await ask(
            self._redis, "read the capacity reservations", "GET", self._key
        )
        try:
            return _DECODER.decode(body) if body else ()
        except msgspec.DecodeError as error:
            log.warning("the stored capacity reservations cannot be read", error=str(error))
            return ()


class ReservedCatalogues:
    """Another source's catalogue with an offering for each reservation that has room."""

    def __init__(self, source: CatalogueSource, reservations: ReservationStore) -> None:
        self._source = source
        self._reservations = reservations

    async def get(self) -> Catalogue | None:
        """None before the first catalogue."""
        catalogue = await self._source.get()
        return catalogue and with_reserved(catalogue, await self._reservations.get())
