"""While a zone is shifted away from, nothing new is bought there (IT-04, GAT-03).

The zone's offerings are marked as unavailable for a little longer than until the next check, so that every service
passes them over, and a launcher that stops leaves none marked for long. Machines that are there stay: nobody tags or
ends an instance of the zone, nor judges by what EC2 says of it (``shared.redis.mirror.catalogue.shifted_zones``).

What may go wrong: AWS cannot be asked, as happens when a zone fails. What was known last goes on holding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.launcher.cluster import ClusterDescription
from services.launcher.ports import Ports
from shared.api.core.references import to_object
from shared.domain import labels as keys
from shared.errors import NotFound, TransientError, Unauthorized
from shared.kube.reading import list_if_served
from shared.kube.resources import NODE_POOLS, PROVISIONERS
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueSource, UnavailableOfferings
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones

log = get_logger(__name__)

PERIOD_SECONDS = 30.0
UNAVAILABLE_SECONDS = 90.0
ACTIVE, CLEARED = "ZonalShiftActive", "ZonalShiftCleared"
Json = Mapping[str, Any]


@dataclass
class ZonalShifts:
    """Asks for shifts of the cluster, and marks offerings."""

    ports: Ports
    cluster: ClusterDescription
    catalogues: CatalogueSource
    unavailable: UnavailableOfferings
    published: ShiftedZones
    """Where other parts and services read them."""
    _names: dict[str, str] = field(default_factory=dict)
    """Zone id -> name."""
    _shifted: frozenset[str] = frozenset()
    """Names of the zones in the last answer of AWS."""

    async def check(self) -> None:
        """Ask AWS, publish the shifted zones, and mark what is sold there."""
        if not self.ports.settings.enable_zonal_shift:
            return
        shifted = await self._shifted_zones()
        for zone in sorted(shifted - self._shifted):
            await self._report(ACTIVE, f"nothing is bought in {zone} while it is shifted away from")
        for zone in sorted(self._shifted - shifted):
            await self._report(CLEARED, f"{zone} is no longer shifted away from")
        self._shifted = shifted
        await self.published.put(shifted)
        await self._mark()

    async def _shifted_zones(self) -> frozenset[str]:
        try:
            cluster = await self.cluster.described()
            ids = await self.ports.cloud.zonal_shift.shifted_zones(cluster.arn)
            if not ids <= self._names.keys():
                self._names = {v: k for k, v in (await self.ports.cloud.ec2.zones()).items()}
        except NotFound:
            return frozenset()  # the cluster takes no part in zonal shifts
        except (TransientError, Unauthorized) as error:
            log.warning("zonal shifts cannot be read", error=error.message)
            return self._shifted
        return frozenset(self._names[one] for one in ids if one in self._names)

    async def _mark(self) -> None:
        catalogue = await self.catalogues.get() if self._shifted else None
        if catalogue is None:
            return
        sold = {
            (offering.capacity_type, kind.name, offering.zone)
            for kind in catalogue.types
            for offering in kind.offerings
            if offering.zone in self._shifted
        }
        reserved = {(keys.RESERVED, name, zone) for _, name, zone in sold}
        await self.unavailable.add(sorted(sold | reserved), seconds=UNAVAILABLE_SECONDS)

    async def _report(self, reason: str, text: str) -> None:
        """On every pool of either generation (EVT-02)."""
        log.warning("zonal shift", state=reason, why=text)
        for resource in (NODE_POOLS, PROVISIONERS):
            for raw in await list_if_served(self.ports.kube, resource):
                await self.ports.recorder.publish(to_object(raw), "Normal", reason, text)
