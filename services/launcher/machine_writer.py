"""What the launcher writes to a Machine, and whom it tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared import streams
from shared.api.references import to_machine
from shared.bus import Bus
from shared.clock import Clock, rfc3339
from shared.domain import labels as keys
from shared.domain.instance_types import InstanceType
from shared.domain.machines import LAUNCHED, Condition, Machine
from shared.domain.nodepools import V1
from shared.domain.reservations import ID_LABEL
from shared.domain.resources import format_resources
from shared.errors import Conflict, NotFound
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.messages import EndInstance, Message, TerminateMachine, send

log = get_logger(__name__)

MOST_LAUNCHES = 10_000
EVENT_SECONDS = 120.0
"""EVT-01."""


class LaunchedInstance(msgspec.Struct, frozen=True):
    """The instance that a machine got. ``image`` is empty when nobody knows it."""

    id: str
    instance_type: str
    zone: str
    capacity_type: str
    image: str = ""
    reservation_id: str = ""
    token: str = ""
    """Client token of the call that started it."""
    labels: dict[str, str] = {}
    """What else its node says of where it runs (IT-44)."""
    profile: str = ""
    """Instance profile of its class, of which a v1 claim tells."""
    authority: str = ""
    """Digest of the cluster's certificate authority that it was told of; empty for an unknown one and for v1alpha5."""
    hostname: str = ""
    """Its private DNS name, empty while EC2 does not show the instance (F20)."""

    @property
    def provider_id(self) -> str:
        """LCH-58."""
        return f"aws:///{self.zone}/{self.id}"


@dataclass
class MachineWriter:
    """Writes with the Machine's UID, so that a namesake of a deleted Machine is never touched."""

    machines: Machines
    bus: Bus
    clock: Clock
    recorder: Recorder
    launches: dict[str, str] = field(default_factory=dict)
    """Provider id -> machine, of late: whoever sees the node need not list all machines. Incomplete by nature."""

    async def launched(
        self, machine: Machine, given: LaunchedInstance, kind: InstanceType | None
    ) -> bool:
        """LCH-58, LCH-59: the labels first and providerID last, in a compare-and-set on an empty one (F1).

        With a providerID the launch counts as done and its record goes; until then a crash repeats all of it. False
        when the machine is gone, replaced, or has another instance: then this one is nobody's.
        """
        provider_id = given.provider_id

        def has_another(stored: Machine) -> bool:
            return stored.uid != machine.uid or stored.provider_id not in ("", provider_id)

        try:
            if has_another(await self.machines.get(machine.key)):
                return False
        except NotFound:
            return False
        await self._patch(machine, _metadata(given, kind))
        status: dict[str, Any] = {"providerID": provider_id}
        if machine.generation_api == V1:
            status["imageID"] = given.image
        if kind is not None:
            status["capacity"] = format_resources(kind.capacity)
            status["allocatable"] = format_resources(kind.allocatable())
        condition = Condition("True", LAUNCHED, "", self.clock.now())
        written = await self.machines.write_condition(
            machine, LAUNCHED, condition, status, unless=has_another
        )
        if written:
            self._remember(provider_id, machine.key)
        return written

    def _remember(self, provider_id: str, key: str) -> None:
        if len(self.launches) >= MOST_LAUNCHES:
            self.launches.clear()
        self.launches[provider_id] = key

    async def condition(
        self,
        machine: Machine,
        name: str,
        condition: Condition,
        status: dict[str, Any] | None = None,
    ) -> None:
        """Write one condition, and ``status`` fields with it."""
        await self.machines.write_condition(machine, name, condition, status)

    async def _patch(self, machine: Machine, metadata: dict[str, Any]) -> None:
        try:
            await self.machines.patch(machine, metadata)
        except (NotFound, Conflict) as error:
            log.info("machine changed meanwhile", machine=machine.name, error=error.message)

    async def delete(self, machine: Machine, reason: str) -> bool:
        """Order the termination of this Machine. False when it was gone already."""
        if not await self.machines.delete(machine):
            return False
        order = TerminateMachine.of(machine, reason)
        await self.tell(streams.TERMINATIONS, order, machine.uid)
        return True

    async def end_instances(self, ids: Iterable[str], reason: str) -> None:
        """Order the end of instances that no machine owns. The terminator reads whose they are before it acts.

        Every look that finds one again orders it again: an order that was lost costs the time to the next look.
        """
        cause = rfc3339(self.clock.now())
        for instance in ids:
            await self.tell(
                streams.TERMINATIONS, EndInstance(instance=instance, reason=reason), cause
            )

    async def tell(self, stream: str, message: Message, cause: str) -> None:
        """Send news."""
        await send(self.bus, stream, message, cause=cause, clock=self.clock)

    async def event(
        self,
        machine: Machine,
        kind: str,
        reason: str,
        text: str,
        *,
        dedupe_seconds: float = EVENT_SECONDS,
    ) -> None:
        """A Kubernetes event on the Machine."""
        await self.recorder.publish(
            to_machine(machine), kind, reason, text, dedupe_seconds=dedupe_seconds
        )


def _metadata(given: LaunchedInstance, kind: InstanceType | None) -> dict[str, Any]:
    decided = {
        keys.INSTANCE_TYPE: given.instance_type,
        keys.ZONE: given.zone,
        keys.CAPACITY_TYPE: given.capacity_type,
    }
    if given.image:
        decided[keys.AWS_PREFIX + "instance-ami-id"] = given.image
    if given.reservation_id:
        decided[ID_LABEL] = given.reservation_id
    metadata: dict[str, Any] = {"labels": {**instance_labels(kind), **given.labels, **decided}}
    price = price_of(kind, given.zone, given.capacity_type)
    said = {keys.PRICE_ANNOTATION: None if price is None else str(price)}
    said[keys.LAUNCH_TOKEN_ANNOTATION] = given.token or None
    said[keys.INSTANCE_PROFILE_ANNOTATION] = given.profile or None
    said[keys.AUTHORITY_ANNOTATION] = given.authority or None
    metadata["annotations"] = {key: text for key, text in said.items() if text is not None}
    return metadata


def instance_labels(kind: InstanceType | None) -> dict[str, str]:
    """The type's labels with one value (LCH-59)."""
    if kind is None:
        return {}
    return {key: values[0] for key, values in kind.labels.items() if len(values) == 1}


def price_of(kind: InstanceType | None, zone: str, capacity_type: str) -> int | None:
    """Micro-USD an hour of one offering, None when unknown. A reservation is paid for already (IT-07)."""
    if capacity_type == keys.RESERVED:
        return 0
    for offering in kind.offerings if kind else ():
        if (offering.zone, offering.capacity_type) == (zone, capacity_type):
            return offering.price_micro_usd_per_hour
    return None
