"""The cluster as decisions may be made from it: the view, what AWS offers, and whether both may be acted on (OPS-13).

The catalogue is what AWS sells, what administrators correct, and what is paid for already. Only the first and the last
come from stores of their own, which may lag behind the cluster. A store that does not cover a node class that the
mirror calls ready is named in the catalogue's ``lacking``, and the solver plans nothing for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.state.view import View
from shared.concurrency.clock import Clock
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.overlays import Overlay
from shared.domain.pools.nodepools import NodeClass
from shared.domain.records import NODE_CLASSES, NODE_OVERLAYS
from shared.domain.snapshot import Snapshot
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorReader
from shared.redis.mirror.catalogue.offerings import (
    CatalogueSource,
    CatalogueStore,
    UnavailableOfferings,
)
from shared.redis.mirror.catalogue.overlays import OverlaidCatalogues
from shared.redis.mirror.catalogue.reservations import ReservationStore, ReservedCatalogues
from shared.settings import SchedulerSettings

BOOKMARK_SECONDS = 60.0
"""A sound watch of a quiet kind is silent for so long between two bookmarks."""
PATIENCE_SECONDS = 5.0
"""A doubt that lasts for less is about to be settled: nothing is decided meanwhile, but readiness does not report
it."""


@dataclass
class ClusterState:
    """What every decision reads."""

    settings: SchedulerSettings
    clock: Clock
    view: View
    catalogues: CatalogueSource
    unavailable: UnavailableOfferings

    def not_synced(self, patience: float = 0.0) -> str:
        """Why the picture of the cluster may not be acted on (OPS-13); empty when it may. A doubt that is younger than
        ``patience`` seconds is not reported."""
        return not_synced(
            self.view.reader,
            now=self.clock.monotonic(),
            max_age=self.settings.mirror_max_age,
            patience=patience,
        )

    async def snapshot(self) -> Snapshot | None:
        """The cluster now; None while there is no catalogue or the picture may not be acted on. Raises
        TransientError."""
        catalogue = await self.catalogues.get()
        if catalogue is None:
            return None
        unavailable = await self.unavailable.current()
        # Asked last: the picture may have become doubtful while we waited for Redis.
        return None if self.not_synced() else self.view.snapshot(catalogue, unavailable)


def not_synced(reader: MirrorReader, *, now: float, max_age: float, patience: float = 0.0) -> str:
    """Empty when it may be acted on. ``now`` is monotonic; ``max_age`` of the picture and ``patience`` with a doubt
    are seconds."""
    if not reader.complete:
        return "the mirror is not complete: is the watcher running?"
    age = reader.age(now)
    if age > max_age:
        return f"the mirror is {age:.0f} s old: is the watcher running?"
    if reader.doubt and reader.doubtful_seconds(now) >= patience:
        return f"the mirror is not verified: {reader.doubt}"
    return unsound(reader, now=now, max_age=max_age)


def unsound(reader: MirrorReader, *, now: float, max_age: float) -> str:
    """The first resource whose changes may pass unseen; empty for none."""
    if not reader.watched():
        return "the watcher has not said yet how far its watches are: is it of this version?"
    for plural in reader.watched():
        position = reader.position(plural, now)
        if position is not None and not position.sound:
            return f"the watch of {plural} has been broken for {position.seconds:.0f} s: see the watcher's log"
        if position is not None and position.seconds > max_age + BOOKMARK_SECONDS:
            return f"the watch of {plural} has been silent for {position.seconds:.0f} s: see the watcher's log"
    return ""


def catalogue_source(bus: Bus, gates: FeatureGates, view: View) -> CatalogueSource:
    """Reads what may be bought now (NO-01, IT-04)."""

    async def overlays() -> list[Overlay]:
        return list(view.records(NODE_OVERLAYS).values())

    def classes() -> list[NodeClass]:
        return list(view.records(NODE_CLASSES).values())

    source: CatalogueSource = CatalogueStore(bus.redis, bus.prefix)
    if gates.node_overlay:
        source = OverlaidCatalogues(source, overlays)
    if gates.reserved_capacity:
        source = ReservedCatalogues(source, ReservationStore(bus.redis, bus.prefix), classes)
    return source
