"""What one Machine without a record asks of EC2, or why it may not ask now (LCH-45..53, BAT-08).

Machines of one plan are mostly alike, so what was found for one is used for the next of the same round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from services.launcher.launch.admission import Admission, NotNow, StaleEpoch, first_made, is_stale
from services.launcher.launch.fleet import (
    Json,
    LaunchRecord,
    addressed,
    all_or_none,
    attempt_of,
    digest,
    fleet_request,
    launch_token,
    subjects_of,
)
from services.launcher.launch.limits import (
    PoolLimits,
    ReservedRoom,
    SafetyLimits,
    room_of_records,
)
from services.launcher.launch.offerings import Chosen, choose, falls_back_to_few
from services.launcher.launch.subnets import SubnetReservations
from services.launcher.launch.unavailable_offerings import CapacityErrors
from services.launcher.launch_template.content import instance_tags
from services.launcher.launch_template.controller import LaunchTemplates
from services.launcher.node_class.capacity_reservations import offered
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from services.launcher.resolved_class import Resolved
from shared.domain import labels as keys
from shared.domain.instance_types.reservations import with_reserved
from shared.domain.instance_types.shortages import weighed
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.pools.usage import Counting, full_zones
from shared.domain.requirements import Requirements
from shared.domain.snapshot import OfferingKey
from shared.errors import InvalidObject, NotFound
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueSource

log = get_logger(__name__)


class FleetContent(msgspec.Struct, frozen=True):
    """A CreateFleet request without number and token; ``digest`` is equal for equal requests."""

    digest: str
    request: Json
    images: dict[str, str]
    """Launch template id -> image."""
    reservations: dict[str, str]
    """Launch template id -> capacity reservation."""
    placement_group: str = ""


class LaunchRequest(msgspec.Struct, frozen=True):
    """What a machine asks for, and the room that is reserved for it."""

    machine: Machine
    content: FleetContent
    room: ReservedRoom


class ClassNotReady(NotFound):
    """The machine's class is gone or selects nothing (LCH-65)."""


@dataclass
class LaunchRound:
    """What all machines of one round have in common, and what was found for them so far."""

    limits: PoolLimits
    epoch: int
    catalogue: Catalogue
    unavailable: frozenset[OfferingKey]
    oldest: Mapping[int, float]
    """When the first machine of each epoch was made."""
    machines: Sequence[Machine] = ()
    """All there are."""
    limits_of: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Pool key -> limits as its object has them now."""
    chosen: dict[bytes, Chosen] = field(default_factory=dict)
    contents: dict[tuple[bytes, tuple[str, ...]], FleetContent] = field(default_factory=dict)


@dataclass
class LaunchRequests:
    ports: Ports
    admission: Admission
    node_classes: NodeClasses
    templates: LaunchTemplates
    catalogues: CatalogueSource
    capacity_errors: CapacityErrors
    subnets: SubnetReservations

    async def begin_round(
        self,
        machines: Sequence[Machine],
        records: Iterable[LaunchRecord],
        reserved: Mapping[str, ReservedRoom],
    ) -> LaunchRound:
        """``machines``: all there are; ``records``: all open ones; ``reserved``: by uid, of calls that this launcher
        is about to write down. Raises NotNow without a catalogue, and TransientError.
        """
        catalogue = await self.catalogues.get()
        if catalogue is None:
            raise NotNow("NoCatalogue", "the catalogue of instance types is not read yet")
        by_uid = {machine.uid: machine for machine in machines}
        limits = PoolLimits(
            machines,
            {**room_of_records(records, by_uid, catalogue), **reserved},
            now=self.ports.clock.now(),
            counting=Counting(self.ports.settings.limits_count_terminating),
        )
        unavailable = await self.capacity_errors.unavailable_now()
        epoch, oldest = await self.admission.epoch(), first_made(machines)
        ordered = weighed(catalogue, await self.capacity_errors.history.current())
        return LaunchRound(limits, epoch, ordered, unavailable, oldest, machines)

    async def request(self, machine: Machine, now: LaunchRound) -> LaunchRequest:
        """What this machine asks for; room is reserved for it in the limits of the round.

        Raises NotNow, StaleEpoch, ClassNotReady, InsufficientCapacity, InvalidObject, and what AWS raises.
        """
        self._check_safety_limits(now)
        if is_stale(machine, now.epoch, now.oldest):
            raise StaleEpoch(
                "made by a scheduler that had lost its lease; its pods are planned anew"
            )
        resolved = await self._resolve(machine)
        kind = _kind_of(machine)
        chosen = await self._within_limits(machine, self._choose(machine, kind, resolved, now), now)
        await self.admission.check_backoff(machine)
        content = await self._content(machine, kind, resolved, chosen, now)
        # Last, so that a machine which is refused for whatever reason takes no room from the next one.
        room = now.limits.admit(machine.pool_key, chosen.choices)
        return LaunchRequest(machine, content, room)

    def _check_safety_limits(self, now: LaunchRound) -> None:
        settings = self.ports.settings
        refusal = now.limits.refusal(SafetyLimits(settings.max_nodes, settings.launches_per_minute))
        if refusal:
            raise NotNow("SafetyLimit", refusal)

    async def _resolve(self, machine: Machine) -> Resolved:
        try:
            return await self.node_classes.resolve(machine.node_class_key)
        except (InvalidObject, NotFound) as error:
            raise ClassNotReady(error.message) from error

    def _choose(
        self, machine: Machine, kind: bytes, resolved: Resolved, now: LaunchRound
    ) -> Chosen:
        found = now.chosen.get(kind)
        if found is None:
            sizes = SizeSettings.of(machine, resolved.node_class)
            zones = _zones(machine, resolved) - full_zones(resolved.node_class, now.machines)
            # What the machine's class selects. EC2 itself says whether a reservation still has room.
            selected = {resolved.node_class.key: resolved.reservations}
            reservations = offered(selected, counted_at=0.0, now=self.ports.clock.now())
            catalogue = with_reserved(now.catalogue, reservations)
            found = choose(machine, catalogue, zones, now.unavailable, sizes)
            now.chosen[kind] = found
            if falls_back_to_few(machine, found):
                log.warning(
                    "spot is not to be had and few on-demand types suit: allow more instance types, or a "
                    "lack of capacity will hold this machine up",
                    machine=machine.name,
                    instance_types=len(found.choices),
                )
        return found

    async def _within_limits(self, machine: Machine, chosen: Chosen, now: LaunchRound) -> Chosen:
        """Without the types that the machine's pool has no room for (BAT-08)."""
        pool = machine.pool_key
        if pool not in now.limits_of:
            now.limits_of[pool] = await self.admission.limits(pool)
        limits = now.limits_of[pool]
        if not limits:
            return chosen
        kept = now.limits.within(machine, limits, chosen.choices)
        if not kept:
            raise NotNow("LimitsExceeded", now.limits.exceeded(machine, limits))
        return Chosen(chosen.capacity_type, tuple(kept))

    async def _content(
        self, machine: Machine, kind: bytes, resolved: Resolved, chosen: Chosen, now: LaunchRound
    ) -> FleetContent:
        key = kind, tuple(choice.type.name for choice in chosen.choices)
        known = now.contents.get(key)
        if known is not None:
            return known
        templates = await self.templates.ensure(machine, resolved, chosen.choices)
        request = fleet_request(
            chosen.capacity_type,
            chosen.choices,
            templates,
            self.subnets.choose(resolved.subnets),
            instance_tags(machine, resolved.node_class, self.ports.settings.cluster_name),
            resolved.node_class.context,
        )
        if not request["LaunchTemplateConfigs"]:
            raise InvalidObject("no image starts any type that is asked for", field="spec")
        found = FleetContent(
            digest=digest(request),
            request=request,
            images={template.id: template.image for template in templates},
            reservations={one.id: one.reservation_id for one in templates if one.reservation_id},
            placement_group=resolved.node_class.placement_group_id,
        )
        now.contents[key] = found
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


def record_of(group: Sequence[LaunchRequest], epoch: int, now: float) -> LaunchRecord:
    """What is written down before the call for machines with equal requests. ``now``: seconds since the epoch."""
    machines = [request.machine for request in group]
    content = group[0].content
    token = launch_token((machine.uid, attempt_of(machine)) for machine in machines)
    return LaunchRecord(
        token=token,
        subjects=subjects_of(machines),
        request=addressed(all_or_none(content.request, machines), machines, token),
        created_at=now,
        images=content.images,
        reservations=content.reservations,
        placement_group=content.placement_group,
        attempt=max(map(attempt_of, machines)),
        epoch=epoch,
    )
