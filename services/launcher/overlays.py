"""Reads NodeOverlays, says on each whether it holds, and hands those that hold to who decides by prices (NO-01).

What may go wrong: an overlay that cannot be read, or contradicts another. It says so in its condition Ready and is
left out; the others hold. With the gate NodeOverlay off nothing is read and nothing is corrected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from shared.api.conditions import READY, condition_objects, known_conditions, with_condition
from shared.api.faults import texts_of
from shared.api.node_overlays import parse_node_overlay
from shared.clock import Clock
from shared.domain.machines import Condition
from shared.domain.overlays import Overlay, judged
from shared.errors import Conflict, DovetailError, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NODE_OVERLAYS
from shared.log import get_logger
from shared.mirror.offerings import CatalogueSource
from shared.mirror.overlays import OverlayStore

log = get_logger(__name__)

PERIOD_SECONDS = 10.0
INVALID = "ValidationFailed"
CONFLICT = "Conflict"
LONGEST_MESSAGE = 1000
Json = Mapping[str, Any]


@dataclass
class Overlays:
    """One look at all of them, again and again."""

    kube: Kube
    store: OverlayStore
    catalogues: CatalogueSource
    """EC2's own facts, uncorrected."""
    clock: Clock
    enabled: bool
    """The gate NodeOverlay."""

    async def look(self) -> None:
        """Conditions first: what is said to hold is used a moment later."""
        catalogue = await self.catalogues.get() if self.enabled else None
        if catalogue is None:
            return
        listed = await self._listed()
        read: dict[str, Overlay] = {}
        refused: dict[str, tuple[str, str]] = {}
        for raw in listed:
            parsed = parse_node_overlay(raw)
            if parsed.record is None:
                name = str(raw["metadata"]["name"])
                refused[name] = (INVALID, "; ".join(texts_of(parsed.faults)))
            else:
                read[parsed.record.name] = parsed.record
        found = await asyncio.to_thread(judged, tuple(read.values()), catalogue)
        refused |= {name: (CONFLICT, text) for name, text in found.refused.items()}
        for raw in listed:
            await self._tell(raw, refused.get(str(raw["metadata"]["name"])))
        await self.store.put(found.used)

    async def _listed(self) -> list[dict[str, Any]]:
        try:
            items = (await self.kube.list(NODE_OVERLAYS)).items
        except NotFound:
            return []  # the cluster does not know the kind
        return [raw for raw in items if not raw["metadata"].get("deletionTimestamp")]

    async def _tell(self, raw: Json, problem: tuple[str, str] | None) -> None:
        """Write the condition where it says something else."""
        old = known_conditions(raw.get("status"))
        status, (reason, message) = ("False", problem) if problem else ("True", (READY, ""))
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
            return  # changed meanwhile: the next look sees it
        except DovetailError as error:
            log.warning("cannot write to overlay", overlay=meta["name"], error=error.message)
            return
        if problem:
            log.warning("overlay is not used", overlay=meta["name"], reason=message)
