"""Reads the catalogue of instance types and prices twice a day and keeps it in Redis for the scheduler (IT-01)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shared.clock import Clock
from shared.cloud.catalogue import load_catalogue
from shared.cloud.node_settings import ModelSettings
from shared.cloud.session import Cloud
from shared.domain.instance_types import Catalogue
from shared.log import get_logger
from shared.mirror.offerings import CatalogueStore
from shared.runtime import pause

log = get_logger(__name__)

FRESH_SECONDS = 12 * 3600.0
LOOK_SECONDS = 5.0
"""How soon a catalogue that Redis lost is written again."""


@dataclass
class Catalogues:
    """Holds the newest catalogue, so that an emptied Redis costs no new reading."""

    cloud: Cloud
    store: CatalogueStore
    settings: ModelSettings
    clock: Clock
    held: Catalogue | None = None
    _read_at: float = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Read when old, write when missing, until ``stop``."""
        while not stop.is_set():
            now = self.clock.monotonic()
            if self.held is None or now - self._read_at > FRESH_SECONDS:
                self.held = await load_catalogue(self.cloud, self.settings)
                self._read_at = now
                log.info(
                    "read the catalogue",
                    types=len(self.held.types),
                    generation=self.held.generation,
                    seconds=round(self.clock.monotonic() - now, 2),
                )
            if await self.store.generation() != self.held.generation:
                await self.store.put(self.held)
            await pause(stop, LOOK_SECONDS)
