"""A catalogue with the corrections of all NodeOverlays that hold (NO-01), for who decides by prices.

The scheduler takes the overlays from the mirror, where pods and pools come from too; the launcher lists them on the API
server right before it buys. Both judge them by the same pure function at that moment, so no stored verdict
can lag behind an overlay that was applied, changed or deleted a moment ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from shared.domain.instance_types.overlays import Overlay, judged, overlaid
from shared.domain.instance_types.types import Catalogue
from shared.redis.mirror.catalogue.offerings import CatalogueSource

Present = Callable[[], Awaitable[Iterable[Overlay]]]
"""The overlays that can be read, as they are now."""


class OverlaidCatalogues:
    """Another source's catalogue, corrected."""

    def __init__(self, source: CatalogueSource, present: Present) -> None:
        self._source = source
        self._present = present
        self._made: tuple[Catalogue, tuple[Overlay, ...], Catalogue] | None = None
        """Of what, by which, the result: 1,300 types are not corrected anew for each question."""

    async def get(self) -> Catalogue | None:
        """None before the first catalogue. Raises what ``present`` raises."""
        catalogue = await self._source.get()
        if catalogue is None:
            return None
        overlays = tuple(sorted(await self._present(), key=lambda one: one.name))
        made = self._made
        if made is None or made[0] is not catalogue or made[1] != overlays:
            corrected = await asyncio.to_thread(_corrected, catalogue, overlays)
            made = self._made = (catalogue, overlays, corrected)
        return made[2]


def _corrected(catalogue: Catalogue, overlays: tuple[Overlay, ...]) -> Catalogue:
    return overlaid(catalogue, judged(overlays, catalogue).used)
