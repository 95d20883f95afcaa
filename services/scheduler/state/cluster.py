"""The cluster as decisions may be made from it: the view, what AWS offers, and whether both may be acted on."""

from __future__ import annotations

from dataclasses import dataclass

from services.scheduler.evidence.sync import not_synced
from services.scheduler.state.view import View
from shared.concurrency.clock import Clock
from shared.domain.snapshot import Snapshot
from shared.redis.mirror.catalogue.offerings import CatalogueSource, UnavailableOfferings
from shared.settings import SchedulerSettings


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
