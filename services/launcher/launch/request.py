"""What one Machine without a record asks of EC2, or why it may not ask (LCH-45..53, BAT-08).

Machines of one plan are mostly alike, so what was worked out for one is used for the next of the same round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from services.launcher.launch.admission import Admission, NotNow, StaleEpoch, first_made, is_stale
from services.launcher.launch.fleet import Json, digest, fleet_request
from services.launcher.launch.limits import PoolLimits, SafetyLimits
from services.launcher.launch.limits import Reservation as Kept
from services.launcher.launch.offerings import Chosen, choose
from services.launcher.launch.unavailable_offerings import CapacityErrors
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.node_class.capacity_reservations import offered
from services.launcher.node_class.controller import NodeClasses
from services.launcher.resolved_class import Resolved
from services.launcher.tags import instance_tags
from shared.domain import labels as keys
from shared.domain.instance_types import Catalogue
from shared.domain.machines import Machine
from shared.domain.requirements import Requirements
from shared.domain.reservations import Reservation, with_reserved
from shared.domain.size_settings import SizeSettings
from shared.domain.snapshot import OfferingKey
from shared.errors import InvalidObject, NotFound
from shared.mirror.offerings import CatalogueSource
from shared.settings import LauncherSettings


class FleetContent(msgspec.Struct, frozen=True):
    """A request without number and token; ``digest`` is equal for equal requests."""

    digest: str
    request: Json
    images: dict[str, str]
    reservations: dict[str, str]


class LaunchRequest(msgspec.Struct, frozen=True):
    """What a machine wants, and the room that is kept for it."""

    machine: Machine
    wanted: FleetContent
    kept: Kept


class ClassNotReady(NotFound):
    """The machine's class is gone or selects nothing (LCH-65)."""


@dataclass
class Round:
    """What all machines of one round have in common, and what was worked out for them so far."""

    ledger: PoolLimits
    epoch: int
    catalogue: Catalogue
    unavailable: frozenset[OfferingKey]
    oldest: Mapping[int, float]
    """When the first machine of each epoch was made."""
    limits: dict[str, Mapping[str, int]] = field(default_factory=dict)
    chosen: dict[bytes, Chosen] = field(default_factory=dict)
    requests: dict[tuple[bytes, tuple[str, ...]], FleetContent] = field(default_factory=dict)


@dataclass
class LaunchRequests:
    """Works out requests."""

    admission: Admission
    node_classes: NodeClasses
    templates: LaunchTemplates
    catalogues: CatalogueSource
    shortage: CapacityErrors
    settings: LauncherSettings

    async def round(self, ledger: PoolLimits, machines: Iterable[Machine]) -> Round:
        """``machines``: all there are. Raises NotNow without a catalogue, and TransientError."""
        catalogue = await self.catalogues.get()
        if catalogue is None:
            raise NotNow("NoCatalogue", "the catalogue of instance types is not read yet")
        unavailable = await self.shortage.known()
        epoch, oldest = await self.admission.epoch(), first_made(machines)
        return Round(ledger, epoch, catalogue, unavailable, oldest)

    async def ask(self, machine: Machine, now: Round) -> LaunchRequest:
        """What this machine asks for; room is kept for it in the ledger.

        Raises NotNow, StaleEpoch, ClassNotReady, InsufficientCapacity, InvalidObject, and what AWS raises.
        """
        settings = self.settings
        refusal = now.ledger.refusal(SafetyLimits(settings.max_nodes, settings.launches_per_minute))
        if refusal:
            raise NotNow("SafetyLimit", refusal)
        if is_stale(machine, now.epoch, now.oldest):
            raise StaleEpoch(
                "made by a scheduler that had lost its lease; its pods are planned anew"
            )
        resolved = await self._resolve(machine)
        kind = _kind_of(machine)
        chosen = await self._within_limits(machine, self._choose(machine, kind, resolved, now), now)
        await self.admission.check_backoff(machine)
        found = await self._request(machine, kind, resolved, chosen, now)
        kept = now.ledger.admit(machine.pool_key, chosen.choices)
        return LaunchRequest(machine, found, kept)

    async def _resolve(self, machine: Machine) -> Resolved:
        try:
            return await self.node_classes.resolve(machine.node_class_key)
        except (InvalidObject, NotFound) as error:
            raise ClassNotReady(error.message) from error

    def _choose(self, machine: Machine, kind: bytes, resolved: Resolved, now: Round) -> Chosen:
        found = now.chosen.get(kind)
        if found is None:
            sizes = SizeSettings.of(machine, resolved.node_class)
            zones = _zones(machine, resolved)
            catalogue = with_reserved(now.catalogue, self._reservations(resolved))
            found = choose(machine, catalogue, zones, now.unavailable, sizes)
            now.chosen[kind] = found
        return found

    def _reservations(self, resolved: Resolved) -> list[Reservation]:
        """What the machine's class selects. EC2 itself says whether there is still room."""
        key, clock = resolved.node_class.key, self.shortage.clock
        return offered({key: resolved.reservations}, counted_at=0.0, now=clock.now())

    async def _within_limits(self, machine: Machine, chosen: Chosen, now: Round) -> Chosen:
        """BAT-08. Types that the pool has no room for are not asked for."""
        pool = machine.pool_key
        if pool not in now.limits:
            now.limits[pool] = await self.admission.limits(pool)
        limits = now.limits[pool]
        if not limits:
            return chosen
        kept = now.ledger.within(machine, limits, chosen.choices)
        if not kept:
            raise NotNow("LimitsExceeded", now.ledger.exceeded(machine, limits))
        return Chosen(chosen.capacity_type, tuple(kept))

    async def _request(
        self, machine: Machine, kind: bytes, resolved: Resolved, chosen: Chosen, now: Round
    ) -> FleetContent:
        key = kind, tuple(choice.type.name for choice in chosen.choices)
        known = now.requests.get(key)
        if known is not None:
            return known
        templates = await self.templates.ensure(machine, resolved, chosen.choices)
        clock = self.shortage.clock
        subnets = self.shortage.subnets.choose(resolved.subnets, clock.monotonic())
        tags = instance_tags(machine, resolved.node_class, self.settings.cluster_name)
        request = fleet_request(
            chosen.capacity_type, chosen.choices, templates, subnets, tags,
            resolved.node_class.context,
        )  # fmt: skip
        if not request["LaunchTemplateConfigs"]:
            raise InvalidObject("no image starts any type that is asked for", field="spec")
        found = FleetContent(
            digest=digest(request),
            request=request,
            images={template.id: template.image for template in templates},
            reservations={one.id: one.reservation_id for one in templates if one.reservation_id},
        )
        now.requests[key] = found
        return found


def _zones(machine: Machine, resolved: Resolved) -> set[str]:
    """Zones with a subnet, of those whose ids the machine allows (IT-41)."""
    rule = Requirements.of(machine.requirements).get(keys.ZONE_ID)
    return {s.zone for s in resolved.subnets if rule is None or rule.has(s.zone_id)}


def _kind_of(machine: Machine) -> bytes:
    """Equal for machines that differ in nothing but their names, histories and annotations."""
    plain = replace(
        machine, uid="", name="", created_at=0.0, annotations={}, conditions={}, finalizers=()
    )
    return msgspec.json.encode(plain)
