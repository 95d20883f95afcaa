"""One reading of the catalogue in a process of its own, which ends afterwards.

Parsing 6 MB of XML neither stalls this process' event loop nor stays in its memory.

What may go wrong: AWS cannot be read (the child's error is raised here), the child dies or hangs (Unavailable; it is
killed after READ_SECONDS, and at once when nobody waits any more).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared import log as logs
from shared.cloud.catalogue.building import load_catalogue, with_memory
from shared.cloud.catalogue.instance_model import ModelSettings
from shared.cloud.catalogue.pricing import decode_prices, encode_prices
from shared.cloud.client.session import Cloud, Role
from shared.concurrency.clock import SystemClock
from shared.distribution.version import VERSION
from shared.domain.instance_types.types import encode_catalogue
from shared.runtime.child import Bounds, in_child
from shared.settings.own import AccessKey

READ_SECONDS = 300.0


@dataclass(frozen=True)
class CatalogueRequest:
    """What the reading process needs to know."""

    region: str
    endpoint_url: str | None
    model: ModelSettings
    log_level: str
    role: Role | None = None
    access_key: AccessKey | None = field(default=None, repr=False)
    """Id and secret of the service's own; None: the usual search."""
    previous: bytes = b""
    """Encoded prices to fall back on."""
    learned: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Instance type -> image id -> bytes of memory (IT-12)."""
    niceness: int = 0
    """Added to that of the launcher."""

    @property
    def fingerprint(self) -> str:
        """Equal for requests that one answer serves: the same region and model, read by the same version."""
        return f"{VERSION} {self.region} {self.endpoint_url or ''} {self.model}"


@dataclass(frozen=True)
class Encoded:
    """A catalogue ready for Redis, with what to tell about it."""

    generation: str
    types: int
    body: bytes
    prices: bytes = b""
    faults: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


Read = Callable[[CatalogueRequest], Encoded]


def read_catalogue(reading: CatalogueRequest) -> Encoded:
    """The body of the reading process. Raises what ``load_catalogue`` raises."""
    logs.configure(reading.log_level)
    return asyncio.run(_read(reading))


async def _read(reading: CatalogueRequest) -> Encoded:
    cloud = await Cloud.connect(
        region=reading.region,
        endpoint_url=reading.endpoint_url,
        clock=SystemClock(),
        random=random.SystemRandom(),
        user_agent=f"dovetail-catalogue/{VERSION}",
        role=reading.role,
        access_key=reading.access_key,
    )
    try:
        previous = decode_prices(reading.previous)
        built, market = await load_catalogue(cloud, reading.model, previous=previous)
    finally:
        await cloud.close()
    catalogue = with_memory(built.catalogue, reading.learned)
    return Encoded(
        generation=catalogue.generation,
        types=len(catalogue.types),
        body=encode_catalogue(catalogue),
        prices=encode_prices(market.prices),
        faults=built.faults,
        stale=market.stale,
    )


async def read_in_child(reading: CatalogueRequest) -> Encoded:
    """The catalogue as AWS has it now. Raises DovetailError."""
    return await read_apart(read_catalogue, reading)


async def read_apart(read: Read, reading: CatalogueRequest) -> Encoded:
    """``read(reading)`` in a new process; ``read`` is a function of a module. Raises DovetailError."""
    bounds = Bounds("the reading of the catalogue", READ_SECONDS, niceness=reading.niceness)
    return await in_child(read, reading, bounds)
