"""A catalogue corrected by all valid NodeOverlays (NO-01), for the services that decide by prices.

The scheduler reads the overlays from the mirror, as it reads pods and pools; the launcher lists them on the API server
right before it launches. Both evaluate them with the same pure function at that moment, so no stored result can lag
behind an overlay that was just applied, changed or deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from shared.domain.instance_types.overlays import (
    Overlay,
    PoolScope,
    asks_for_pools,
    judged,
    overlaid,
    scope_of,
)
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools.nodepools import NodePool
from shared.redis.mirror.catalogue.offerings import CatalogueSource

Present = Callable[[], Awaitable[Iterable[Overlay]]]
"""Returns the readable overlays as they are now."""
Pools = Callable[[], Awaitable[Iterable[NodePool]]]
"""Returns the readable pools as they are now. Asked only where an overlay requires labels of pools."""


class OverlaidCatalogues:
    """Another source's catalogue, corrected by the overlays."""

    def __init__(self, source: CatalogueSource, present: Present, pools: Pools) -> None:
        self._source = source
        self._present = present
        self._pools = pools
        self._made: tuple[Catalogue, object, Catalogue] | None = None
        """Source catalogue, overlays and pools, result: a cache, so that 1,300 types are not corrected anew by each
        call."""

    async def get(self) -> Catalogue | None:
        """None before the first catalogue. Raises what ``present`` and ``pools`` raise."""
        catalogue = await self._source.get()
        if catalogue is None:
            return None
        overlays = tuple(sorted(await self._present(), key=lambda one: one.name))
        asked = any(map(asks_for_pools, overlays))
        scopes = scopes_of(await self._pools()) if asked else ()
        made = self._made
        if made is None or made[0] is not catalogue or made[1] != (overlays, scopes):
            corrected = await asyncio.to_thread(_corrected, catalogue, overlays, scopes)
            made = self._made = (catalogue, (overlays, scopes), corrected)
        return made[2]


def scopes_of(pools: Iterable[NodePool]) -> tuple[PoolScope, ...]:
    """Of the pools that can be read, by key."""
    return tuple(sorted(filter(None, map(scope_of, pools)), key=lambda one: one.key))


def _corrected(
    catalogue: Catalogue, overlays: tuple[Overlay, ...], scopes: tuple[PoolScope, ...]
) -> Catalogue:
    return overlaid(catalogue, judged(overlays, catalogue, scopes).used, scopes)
