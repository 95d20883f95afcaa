"""The catalogue as the scheduler may plan by it: what AWS sells, what administrators correct, what is paid for already.

Only the first and the last come from stores of their own, which may lag behind the cluster. A store that does not cover
a node class that the mirror calls ready is named in the catalogue's ``lacking``, and the solver plans nothing for it.
"""

from __future__ import annotations

from services.scheduler.state.view import View
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.overlays import Overlay
from shared.domain.pools.nodepools import NodeClass
from shared.domain.records import NODE_CLASSES, NODE_OVERLAYS
from shared.redis.bus import Bus
from shared.redis.mirror.catalogue.offerings import CatalogueSource, CatalogueStore
from shared.redis.mirror.catalogue.overlays import OverlaidCatalogues
from shared.redis.mirror.catalogue.reservations import ReservationStore, ReservedCatalogues


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
