"""Offerings that EC2 refused for want of capacity are marked as unavailable (LCH-12, LCH-60, LCH-61, LCH-63).

An error of a fleet names one offering: no service asks for it again for three minutes. An error of the whole call
means every offering that was asked for. What a placement group has no room for is unavailable in that group only. A
missing service-linked role means all of spot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from services.launcher.launch.fleet import LaunchRecord, overrides_of
from services.launcher.launch.subnets import SubnetReservations
from shared.cloud.client.errors import SPOT_ROLE_MISSING, is_capacity_error
from shared.cloud.ec2.records import FleetError, FleetResult
from shared.domain import labels as keys
from shared.domain.instance_types.shortages import in_group
from shared.domain.snapshot import OfferingKey
from shared.errors import TransientError
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.mirror.catalogue.offerings import CatalogueSource, UnavailableOfferings
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.settings import LauncherSettings

log = get_logger(__name__)

SUBNET_IS_FULL = "InsufficientFreeAddressesInSubnet"


def is_shortage(errors: Iterable[FleetError]) -> bool:
    """Is a lack of capacity all that is wrong? False without any error (LCH-64)."""
    codes = [error.code for error in errors]
    return bool(codes) and all(map(is_capacity_error, codes))


def reasons_of(errors: Iterable[FleetError]) -> str:
    """Every reason once, for a condition or an event."""
    texts = sorted({f"{error.code}: {error.message}" for error in errors})
    return "; ".join(texts)[:500]


@dataclass
class CapacityErrors:
    """Writes what EC2 refused to Redis and to the metrics, and full subnets to this launcher's reservations."""

    unavailable: UnavailableOfferings
    catalogues: CatalogueSource
    subnets: SubnetReservations
    settings: LauncherSettings
    metrics: Metrics
    history: ShortageHistory

    async def unavailable_now(self) -> frozenset[OfferingKey]:
        """Offerings that are unavailable now; none while Redis is away, which costs some failed requests (R2)."""
        try:
            return await self.unavailable.current()
        except TransientError as error:
            log.warning("cannot read unavailable offerings", error=error.message)
            return frozenset()

    async def record_fleet(self, record: LaunchRecord, result: FleetResult) -> None:
        """Mark what the errors of an answer name (LCH-61). They count whether or not instances came with them.

        A call that gave nothing for want of capacity had none of all that it asked for, whatever its errors name.
        """
        errors = result.errors
        nothing = not result.instances and is_shortage(errors)
        short: set[OfferingKey] = _asked_for(record) if nothing else set()
        forbidden: set[OfferingKey] = set()
        for error in errors:
            zone = error.zone or ""
            zone_id = self.subnets.zone_ids.get(zone, "")
            self.metrics.launch_failures.labels(
                zone, zone_id, record.capacity_type, error.code
            ).inc()
            if error.code == SUBNET_IS_FULL and error.subnet_id:
                self.subnets.exhausted(error.subnet_id)
            if error.code == SPOT_ROLE_MISSING:
                forbidden |= await self._all_spot()
            elif is_capacity_error(error.code):
                short |= _named(record, error)
        await self._mark_short(short, record.placement_group)
        await self._mark(forbidden, is_shortage=False)

    def count(self, record: LaunchRecord, code: str) -> None:
        """One failure of the whole call: it names no zone."""
        self.metrics.launch_failures.labels("", "", record.capacity_type, code).inc()

    async def record_call(self, record: LaunchRecord, code: str) -> None:
        """The call itself failed with a code of LCH-60, or for want of the spot role: it names no offering."""
        self.count(record, code)
        if code == SPOT_ROLE_MISSING:
            await self._mark(await self._all_spot(), is_shortage=False)
        else:
            await self._mark_short(_asked_for(record), record.placement_group)

    async def _all_spot(self) -> set[OfferingKey]:
        """The whole capacity type (LCH-63)."""
        catalogue = await self.catalogues.get()
        return {
            (keys.SPOT, kind.name, offering.zone)
            for kind in (catalogue.types if catalogue else ())
            for offering in kind.offerings
            if offering.capacity_type == keys.SPOT
        }

    async def _mark_short(self, short: set[OfferingKey], group: str) -> None:
        """A placement group that is full says nothing about others, nor about other days."""
        await self._mark({in_group(one, group) for one in short}, is_shortage=not group)

    async def _mark(self, short: set[OfferingKey], *, is_shortage: bool = True) -> None:
        """``is_shortage``: EC2 lacked capacity, rather than we a right."""
        if not short:
            return
        shown = [":".join(key) for key in sorted(short)[:20]]
        log.info("offerings are unavailable", number=len(short), offerings=shown)
        try:
            await self.unavailable.add(sorted(short), seconds=self.settings.unavailable_seconds)
        except TransientError as error:
            log.warning("cannot remember unavailable offerings", error=error.message)
        if is_shortage:
            await self.history.add(sorted(short))


def _named(record: LaunchRecord, error: FleetError) -> set[OfferingKey]:
    """The offering of an error; all of the call for one that names none."""
    if error.instance_type and error.zone:
        return {(record.capacity_type, error.instance_type, error.zone)}
    return _asked_for(record)


def _asked_for(record: LaunchRecord) -> set[OfferingKey]:
    return {
        (record.capacity_type, override["InstanceType"], override["AvailabilityZone"])
        for override in overrides_of(record.request)
    }
