"""Reads NodeOverlays: for launches, which go by corrected prices, and to say on each whether it holds (NO-01).

What may go wrong: an overlay that cannot be read, or contradicts another. It says so in its condition Ready and is
left out; the others hold. With the gate NodeOverlay off nothing is corrected, and each overlay says that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from shared.api.conditions import READY, condition_objects, known_conditions, with_condition
from shared.api.faults import texts_of
from shared.api.parsers import parser_of
from shared.api.v1.node_overlays import parse_node_overlay
from shared.concurrency.clock import Clock
from shared.domain.instance_types.overlays import (
    GATE_OFF_REASON,
    Overlay,
    asks_for_pools,
    judged,
)
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Condition
from shared.domain.pools.nodepools import NodePool
from shared.errors import Conflict, DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.reading import list_if_served
from shared.kube.resources import NODE_OVERLAYS, NODE_POOLS, PROVISIONERS
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueSource
from shared.redis.mirror.catalogue.overlays import OverlaidCatalogues, scopes_of

log = get_logger(__name__)

PERIOD_SECONDS = 10.0
PERIOD_OFF_SECONDS = 60.0
"""With the gate off: overlays are only to say so."""
LIST_FRESH_SECONDS = 1.0
INVALID = "ValidationFailed"
CONFLICT = "Conflict"
GATE_OFF = (
    GATE_OFF_REASON,
    "it has no effect while the feature gate NodeOverlay is off: set FEATURE_GATES=NodeOverlay=true",
)
LONGEST_MESSAGE = 1000
Json = Mapping[str, Any]


async def listed_overlays(kube: Kube) -> list[dict[str, Any]]:
    """All that stay, as stored; none where the cluster does not know the kind. Raises TransientError."""
    items = await list_if_served(kube, NODE_OVERLAYS)
    return [raw for raw in items if not raw["metadata"].get("deletionTimestamp")]


async def readable_overlays(kube: Kube) -> list[Overlay]:
    """Those that can be read. Raises TransientError."""
    read = map(parse_node_overlay, await listed_overlays(kube))
    return [one.record for one in read if one.record is not None]


async def readable_pools(kube: Kube) -> list[NodePool]:
    """Of both generations. Raises TransientError."""
    read = [
        parser_of(resource.kind)(raw)
        for resource in (NODE_POOLS, PROVISIONERS)
        for raw in await list_if_served(kube, resource)
    ]
    return [one.record for one in read if one.record is not None]


Record = TypeVar("Record")


@dataclass
class Listed(Generic[Record]):
    """Objects of this very moment, for launches: what is bought must not go by a price that was corrected since.

    A call for each of hundreds of machines that come up together would be too many: a list serves for a second.
    """

    read: Callable[[Kube], Awaitable[Iterable[Record]]]
    kube: Kube
    clock: Clock
    _found: tuple[Record, ...] = ()
    _listed_at: float = float("-inf")
    _listing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __call__(self) -> tuple[Record, ...]:
        """Raises TransientError."""
        async with self._listing:
            if self.clock.monotonic() - self._listed_at >= LIST_FRESH_SECONDS:
                began = self.clock.monotonic()
                self._found = tuple(await self.read(self.kube))
                self._listed_at = began
            return self._found


def overlaid_catalogues(store: CatalogueSource, kube: Kube, clock: Clock) -> OverlaidCatalogues:
    """The catalogue as launches go by it."""
    listed = Listed(readable_overlays, kube, clock)
    return OverlaidCatalogues(store, listed, Listed(readable_pools, kube, clock))


@dataclass
class Overlays:
    """Judges all of them together, again and again."""

    kube: Kube
    catalogues: CatalogueSource
    """EC2's own facts, uncorrected."""
    clock: Clock
    enabled: bool
    """The gate NodeOverlay."""

    @property
    def period_seconds(self) -> float:
        """The time between two checks."""
        return PERIOD_SECONDS if self.enabled else PERIOD_OFF_SECONDS

    async def check_all(self) -> None:
        """Write on each whether it holds."""
        catalogue = await self.catalogues.get() if self.enabled else None
        if self.enabled and catalogue is None:
            return
        listed = await listed_overlays(self.kube)
        refused, idle = await self._judged(listed, catalogue) if catalogue else ({}, {})
        for raw in listed:
            name = str(raw["metadata"]["name"])
            problem = refused.get(name) if catalogue else GATE_OFF
            await self._write(raw, problem, idle.get(name, ""))

    async def _judged(
        self, listed: list[dict[str, Any]], catalogue: Catalogue
    ) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
        """Name -> (reason, message) of those that do not hold, and name -> why of those that correct nothing."""
        read: dict[str, Overlay] = {}
        refused: dict[str, tuple[str, str]] = {}
        for raw in listed:
            parsed = parse_node_overlay(raw)
            if parsed.record is None:
                name = str(raw["metadata"]["name"])
                refused[name] = (INVALID, "; ".join(texts_of(parsed.faults)))
            else:
                read[parsed.record.name] = parsed.record
        asked = any(map(asks_for_pools, read.values()))
        scopes = scopes_of(await readable_pools(self.kube)) if asked else ()
        found = await asyncio.to_thread(judged, tuple(read.values()), catalogue, scopes)
        conflicting = {name: (CONFLICT, text) for name, text in found.refused.items()}
        return refused | conflicting, found.idle

    async def _write(self, raw: Json, problem: tuple[str, str] | None, hint: str = "") -> None:
        """Write the condition where the object has another one. ``hint``: beside a condition that is True."""
        old = known_conditions(raw.get("status"))
        status, (reason, message) = ("False", problem) if problem else ("True", (READY, hint))
        fresh = Condition(status, reason, message[:LONGEST_MESSAGE], self.clock.now())
        fresh = replace(fresh, generation=int(raw["metadata"].get("generation") or 0))
        conditions = with_condition(old, READY, fresh)
        if conditions == old:
            return
        meta = raw["metadata"]
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"]},
            "status": {"conditions": condition_objects(conditions)},
        }
        try:
            await self.kube.patch(NODE_OVERLAYS, meta["name"], body, subresource="status")
        except (NotFound, Conflict):
            return  # changed meanwhile: the next check reads it
        except DovetailError as error:
            log.warning("cannot write to overlay", overlay=meta["name"], error=error.message)
            return
        if problem:
            log.warning("overlay is not used", overlay=meta["name"], reason=message)
