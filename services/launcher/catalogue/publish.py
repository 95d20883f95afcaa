"""Keeps the catalogue of instance types and prices in Redis for the scheduler, read from AWS twice a day (IT-01).

A launcher that starts takes over what the last one left in Redis, and with it when AWS is to be read next: many
launchers start in an upgrade, and a reading takes seconds of CPU while pods wait for machines. Another version or other
settings read at once.

What may go wrong: AWS cannot be read. Prices then stay as they were last read, and types too once there are any. Each
trouble is logged once, not at each new try.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from services.launcher.catalogue.learned_memory import MemorySizes
from services.launcher.catalogue.read import CatalogueRequest, Encoded, read_in_child
from shared.cloud.catalogue.building import with_memory
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause
from shared.domain.instance_types.types import encode_catalogue
from shared.errors import DovetailError
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueStore
from shared.runtime.ram import settle

log = get_logger(__name__)

CATALOGUE_FRESH_SECONDS = 12 * 3600.0
STALE_PRICES_RETRY_SECONDS = 3600.0
"""How soon AWS is read again when it gave no prices."""
FAILED_READ_RETRY_SECONDS = 60.0
"""How soon when it could not be read at all."""
CHECK_SECONDS = 5.0
"""How soon a catalogue that Redis lost is written again."""
PUBLISH_LEARNED_SECONDS = 60.0
"""New sizes are published this often at most: each generation costs the scheduler a decoding."""
BACKGROUND_NICENESS = 10
"""Of a reading while the catalogue that is there serves."""
MOST_FAULTS_LOGGED = 20
"""Faults in one log line."""
_AT_ONCE = float("-inf")


@dataclass(frozen=True)
class Held:
    """What is known of the catalogue that Redis should have. Its 3 MB are not kept here."""

    generation: str
    types: int


@dataclass
class Catalogues:
    """Keeps the newest catalogue in Redis."""

    store: CatalogueStore
    reading: CatalogueRequest
    clock: Clock
    memory: MemorySizes
    read: Callable[[CatalogueRequest], Awaitable[Encoded]] = read_in_child
    """Must leave the loop free while it reads."""
    held: Held | None = None
    problem: str = ""
    """What of AWS could not be read last time; empty: everything was."""
    last_progress: float = 0.0
    """Monotonic time of the last update that ended well."""
    _due_at: float = _AT_ONCE
    _learned_at: float = _AT_ONCE
    _failing: bool = False
    _prices: bytes = b""
    _logged: set[str] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """Update again and again, until ``stop``."""
        while not stop.is_set():
            await self.update()
            await pause(stop, CHECK_SECONDS)

    async def update(self) -> None:
        """Read AWS when it is time, write what Redis lost, publish sizes that nodes reported.

        Raises what Redis raises, and as long as there is no catalogue at all what AWS does.
        """
        if self.held is None:
            await self._take_over()
        elif await self.store.generation() != self.held.generation:
            await self._restore(self.held)
        if self.clock.monotonic() >= self._due_at:
            await self._refresh()
        if self.clock.monotonic() - self._learned_at >= PUBLISH_LEARNED_SECONDS:
            await self._publish_learned()
        self.last_progress = self.clock.monotonic()

    async def _take_over(self) -> None:
        """What an earlier launcher left serves until AWS is read."""
        self._prices = await self.store.prices()
        catalogue = await self.store.get()
        if catalogue is None or catalogue.region != self.reading.region:
            return
        self.held = Held(catalogue.generation, len(catalogue.types))
        fresh = await self.store.fresh_seconds(self.reading.fingerprint)
        if fresh > 0:
            self._due_at = self.clock.monotonic() + min(fresh, CATALOGUE_FRESH_SECONDS)
            log.info("took over the catalogue", generation=catalogue.generation, seconds=fresh)

    async def _refresh(self) -> None:
        started = self.clock.monotonic()
        learned = await self.memory.by_type()
        # Without a catalogue nothing can be launched; with one launches need the CPU more than the reading does.
        niceness = BACKGROUND_NICENESS if self.held is not None else 0
        reading = replace(self.reading, previous=self._prices, learned=learned, niceness=niceness)
        try:
            encoded = await self.read(reading)
        except DovetailError as error:
            if self.held is None:
                raise
            self._keep(error)
            return
        await self.store.put(encoded.body, encoded.generation, encoded.prices)
        if not encoded.stale:
            await self.store.keep_fresh(reading.fingerprint, CATALOGUE_FRESH_SECONDS)
        self._prices, self._learned_at = encoded.prices, started
        self.held, self._failing = Held(encoded.generation, encoded.types), False
        self._due_at = started + (
            STALE_PRICES_RETRY_SECONDS if encoded.stale else CATALOGUE_FRESH_SECONDS
        )
        await self.store.get()  # decoded before the first launch waits for it
        settle()
        self._log(encoded)
        log.info(
            "read the catalogue",
            types=encoded.types,
            generation=encoded.generation,
            seconds=round(self.clock.monotonic() - started, 2),
        )

    def _keep(self, error: DovetailError) -> None:
        """AWS could not be read: what is there goes on serving."""
        if not self._failing:
            log.warning("keeping the catalogue, AWS cannot be read", error=error.message)
        self._failing, self.problem = True, error.message
        self._due_at = self.clock.monotonic() + FAILED_READ_RETRY_SECONDS

    def _log(self, encoded: Encoded) -> None:
        """Log what the last reading did not have to tell."""
        self.problem = "; ".join(encoded.stale)
        _warn("using the last known prices", encoded.stale, self._logged)
        _warn("not believing what AWS says", encoded.faults, self._logged)
        self._logged = {_subject(detail) for detail in encoded.stale + encoded.faults}

    async def _restore(self, held: Held) -> None:
        """Redis lost it: write what a launch decoded, or else read it anew."""
        catalogue = await self.store.get()
        if catalogue is None or catalogue.generation != held.generation:
            self._due_at = _AT_ONCE
            return
        body = await asyncio.to_thread(encode_catalogue, catalogue)
        await self.store.put(body, held.generation, self._prices)
        log.info("wrote the catalogue again", generation=held.generation)

    async def _publish_learned(self) -> None:
        """The planner sees new sizes as a new generation (IT-12)."""
        learned = await self.memory.by_type()
        catalogue = await self.store.get()
        if catalogue is None:
            return
        self._learned_at = self.clock.monotonic()
        fresh = await asyncio.to_thread(with_memory, catalogue, learned)
        if fresh.generation == catalogue.generation:
            return
        body = await asyncio.to_thread(encode_catalogue, fresh)
        await self.store.put(body, fresh.generation)
        self.held = Held(fresh.generation, len(fresh.types))
        log.info("published the memory that nodes reported", generation=fresh.generation)


def _warn(message: str, details: Iterable[str], logged: set[str]) -> None:
    fresh = [detail for detail in details if _subject(detail) not in logged]
    if fresh:
        log.warning(message, reasons=fresh[:MOST_FAULTS_LOGGED], number=len(fresh))


def _subject(detail: str) -> str:
    """The rest may hold a request's id, which is new each time."""
    return detail.partition(":")[0]
