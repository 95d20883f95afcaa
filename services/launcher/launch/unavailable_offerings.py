"""What EC2 said it has not got, and who must know (LCH-12, LCH-60, LCH-61, LCH-63).

An error of a fleet names one offering: nobody asks for it again for three minutes, in whatever service. An error of
the whole call means every offering that was asked for. A missing service-linked role means all of spot.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.launcher.launch.fleet import overrides_of
from services.launcher.launch.record import LaunchRecord
from services.launcher.launch.subnets import SubnetAddresses, asked, taken
from shared.clock import Clock
from shared.cloud.errors import SPOT_ROLE_MISSING, is_capacity_error
from shared.cloud.records import FleetError, FleetInstance, FleetResult
from shared.domain import labels as keys
from shared.domain.resources import PODS
from shared.domain.snapshot import OfferingKey
from shared.errors import TransientError
from shared.log import get_logger
from shared.metrics import Metrics
from shared.mirror.offerings import CatalogueSource, UnavailableOfferings
from shared.settings import LauncherSettings

log = get_logger(__name__)

SUBNET_IS_FULL = "InsufficientFreeAddressesInSubnet"


def is_shortage(errors: Iterable[FleetError]) -> bool:
    """LCH-64: is a lack of capacity all that is wrong? False when nothing is said to be wrong."""
    codes = [error.code for error in errors]
    return bool(codes) and all(map(is_capacity_error, codes))


def reasons_of(errors: Iterable[FleetError]) -> str:
    """Every reason once, for people."""
    texts = sorted({f"{error.code}: {error.message}" for error in errors})
    return "; ".join(texts)[:500]


@dataclass
class CapacityErrors:
    """Writes it to Redis, to the metrics, and to this launcher's own memory of subnets."""

    unavailable: UnavailableOfferings
    catalogues: CatalogueSource
    clock: Clock
    settings: LauncherSettings
    metrics: Metrics
    subnets: SubnetAddresses = field(default_factory=SubnetAddresses)

    async def known(self) -> frozenset[OfferingKey]:
        """What is unavailable now; nothing while Redis is away, which costs some failed requests (R2)."""
        try:
            return await self.unavailable.current()
        except TransientError as error:
            log.warning("cannot read unavailable offerings", error=error.message)
            return frozenset()

    async def remember(self, record: LaunchRecord, result: FleetResult) -> None:
        """LCH-61: errors count whether or not instances came with them.

        A call that gave nothing for want of capacity had none of all that it asked for, whatever its errors name.
        """
        errors = result.errors
        nothing = not result.instances and is_shortage(errors)
        short: set[OfferingKey] = _asked_for(record) if nothing else set()
        for error in errors:
            zone = error.zone or ""
            self.metrics.launch_failures.labels(zone, record.capacity_type, error.code).inc()
            if error.code == SUBNET_IS_FULL and error.subnet_id:
                self.subnets.exhausted(error.subnet_id, self.clock.monotonic())
            if error.code == SPOT_ROLE_MISSING:
                short |= await self._all_spot()
            elif is_capacity_error(error.code):
                short |= _named(record, error)
        await self._mark(short)

    async def reserve(self, record: LaunchRecord) -> None:
        """LCH-11: other launches count on the addresses that are left when this call has all it asks for."""
        addresses = asked(overrides_of(record.request), await self._pods(), len(record.subjects))
        self.subnets.reserve(record.token, addresses, self.clock.monotonic())

    async def settle(self, record: LaunchRecord, instances: Iterable[FleetInstance]) -> None:
        """LCH-11: what it took, as EC2 answered."""
        addresses = taken(instances, await self._pods())
        self.subnets.settle(record.token, addresses, self.clock.monotonic())

    async def _pods(self) -> dict[str, int]:
        """By instance type, with the usual settings: near enough to compare subnets."""
        catalogue = await self.catalogues.get()
        return {t.name: t.capacity.get(PODS, 0) for t in catalogue.types} if catalogue else {}

    async def remember_call(self, record: LaunchRecord, code: str) -> None:
        """The call itself failed with a code of LCH-60, or for want of the spot role: it names no offering."""
        self.metrics.launch_failures.labels("", record.capacity_type, code).inc()
        whole = code == SPOT_ROLE_MISSING
        await self._mark(await self._all_spot() if whole else _asked_for(record))

    async def _all_spot(self) -> set[OfferingKey]:
        """LCH-63: the whole capacity type."""
        catalogue = await self.catalogues.get()
        return {
            (keys.SPOT, kind.name, offering.zone)
            for kind in (catalogue.types if catalogue else ())
            for offering in kind.offerings
            if offering.capacity_type == keys.SPOT
        }

    async def _mark(self, short: set[OfferingKey]) -> None:
        if not short:
            return
        shown = [":".join(key) for key in sorted(short)[:20]]
        log.info("offerings are unavailable", number=len(short), offerings=shown)
        try:
            await self.unavailable.mark(sorted(short), seconds=self.settings.unavailable_seconds)
        except TransientError as error:
            log.warning("cannot remember unavailable offerings", error=error.message)


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
