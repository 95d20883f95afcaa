"""The overlays that hold, for who decides by prices: the scheduler and the launcher's own choice (NO-01).

The launcher reads the NodeOverlays and writes those that can be used. They end by themselves, some minutes after a
launcher wrote last: prices are then EC2's own again, and no plan goes by a correction that was withdrawn long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from redis.asyncio import Redis

from shared.bus.connection import ask, redis_errors
from shared.domain.instance_types import Catalogue
from shared.domain.overlays import Overlay, overlaid
from shared.log import get_logger
from shared.mirror.offerings import CatalogueSource

log = get_logger(__name__)

KEPT_SECONDS = 900
_DECODER = msgspec.json.Decoder(tuple[Overlay, ...])


class OverlayStore:
    """All of them in one document, heaviest first."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self._redis = redis
        self._key = f"{prefix}overlays"

    async def put(self, overlays: Sequence[Overlay]) -> None:
        """Replace what holds."""
        with redis_errors("store the overlays"):
            await self._redis.set(self._key, msgspec.json.encode(overlays), ex=KEPT_SECONDS)

    async def get(self) -> tuple[Overlay, ...]:
        """None of them while nobody wrote, or when another version did."""
        body: bytes | None = await ask(self._redis, "read the overlays", "GET", self._key)
        try:
            return _DECODER.decode(body) if body else ()
        except msgspec.DecodeError as error:
            log.warning("the stored overlays cannot be read", error=str(error))
            return ()


class OverlaidCatalogues:
    """Another source's catalogue with the corrections of all overlays that hold."""

    def __init__(self, source: CatalogueSource, overlays: OverlayStore) -> None:
        self._source = source
        self._overlays = overlays
        self._made: tuple[Catalogue, tuple[Overlay, ...], Catalogue] | None = None
        """Of what, by which, the result: 1,300 types are not corrected anew for each question."""

    async def get(self) -> Catalogue | None:
        """None before the first catalogue."""
        catalogue = await self._source.get()
        if catalogue is None:
            return None
        holding = await self._overlays.get()
        made = self._made
        if made is None or made[0] is not catalogue or made[1] != holding:
            corrected = await asyncio.to_thread(overlaid, catalogue, holding)
            made = self._made = (catalogue, holding, corrected)
        return made[2]
