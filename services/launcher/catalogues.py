"""Reads the catalogue of instance types and prices twice a day and keeps it in Redis for the scheduler (IT-01).

The reading happens in a process of its own that ends afterwards: parsing 6 MB of XML neither stalls this event loop
nor stays in this process' memory.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from shared import log as logs
from shared.clock import Clock, SystemClock
from shared.cloud.catalogue import load_catalogue
from shared.cloud.instance_model import ModelSettings
from shared.cloud.session import Cloud
from shared.domain.instance_types import encode_catalogue
from shared.errors import Unavailable
from shared.log import get_logger
from shared.memory import settle
from shared.mirror.offerings import CatalogueStore
from shared.runtime import pause

log = get_logger(__name__)

FRESH_SECONDS = 12 * 3600.0
LOOK_SECONDS = 5.0
"""How soon a catalogue that Redis lost is written again."""
READ_SECONDS = 300.0


@dataclass(frozen=True)
class Reading:
    """What the reading process needs to know."""

    region: str
    endpoint_url: str | None
    model: ModelSettings
    log_level: str


@dataclass(frozen=True)
class Held:
    """What is known of the catalogue that Redis should have. Its 3 MB are not kept here."""

    generation: str
    types: int


@dataclass(frozen=True)
class Encoded:
    """A catalogue ready for Redis."""

    generation: str
    types: int
    body: bytes


def read_catalogue(reading: Reading) -> Encoded:
    """The body of the reading process. Raises what ``load_catalogue`` raises."""
    logs.configure(reading.log_level)
    return asyncio.run(_read(reading))


async def _read(reading: Reading) -> Encoded:
    cloud = await Cloud.connect(
        region=reading.region,
        endpoint_url=reading.endpoint_url,
        clock=SystemClock(),
        random=random.SystemRandom(),
        user_agent="dovetail-catalogue/0.1.0",
    )
    try:
        catalogue = await load_catalogue(cloud, reading.model)
    finally:
        await cloud.close()
    return Encoded(catalogue.generation, len(catalogue.types), encode_catalogue(catalogue))


@dataclass
class Catalogues:
    """Keeps the newest catalogue in Redis."""

    store: CatalogueStore
    reading: Reading
    clock: Clock
    held: Held | None = None
    last_progress: float = 0.0
    """Monotonic time of the last look that ended well."""
    _read_at: float = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Read when old, write when missing, until ``stop``."""
        while not stop.is_set():
            if self.held is None or self.clock.monotonic() - self._read_at > FRESH_SECONDS:
                await self._refresh()
            elif await self.store.generation() != self.held.generation:
                await self._restore(self.held)
            self.last_progress = self.clock.monotonic()
            await pause(stop, LOOK_SECONDS)

    async def _refresh(self) -> None:
        started = self.clock.monotonic()
        encoded = await self._read_apart()
        await self.store.put(encoded.body, encoded.generation)
        self._read_at = started
        self.held = Held(encoded.generation, encoded.types)
        await self.store.get()  # decoded before the first launch waits for it
        settle()
        log.info(
            "read the catalogue",
            types=encoded.types,
            generation=encoded.generation,
            seconds=round(self.clock.monotonic() - started, 2),
        )

    async def _restore(self, held: Held) -> None:
        """Redis lost it: write what a launch decoded, or else read it anew."""
        catalogue = await self.store.get()
        if catalogue is not None and catalogue.generation == held.generation:
            await self.store.put(encode_catalogue(catalogue), held.generation)
        else:
            await self._refresh()

    async def _read_apart(self) -> Encoded:
        context = multiprocessing.get_context("spawn")
        loop = asyncio.get_running_loop()
        with ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
            try:
                async with asyncio.timeout(READ_SECONDS):
                    return await loop.run_in_executor(pool, read_catalogue, self.reading)
            except (BrokenProcessPool, TimeoutError) as error:
                raise Unavailable("the process that reads the catalogue died or hung") from error
