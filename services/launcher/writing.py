"""What the launcher writes to a Machine, and whom it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared import streams
from shared.api.references import to_machine
from shared.bus import Bus
from shared.clock import Clock
from shared.domain import labels as keys
from shared.domain.instance_types import InstanceType
from shared.domain.machines import LAUNCHED, Condition, Machine
from shared.domain.nodepools import V1
from shared.domain.resources import format_resources
from shared.errors import Conflict, NotFound
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.messages import Message, TerminateMachine, send

log = get_logger(__name__)


@dataclass
class Writer:
    """Writes with the Machine's UID, so that a namesake of a deleted Machine is never touched."""

    machines: Machines
    bus: Bus
    clock: Clock
    recorder: Recorder

    async def launched(
        self,
        machine: Machine,
        instance: str,
        type_name: str,
        zone: str,
        capacity_type: str,
        image: str,
        kind: InstanceType | None,
    ) -> None:
        """LCH-58, LCH-59: the labels first and providerID last.

        With a providerID the launch counts as done and its record goes; until then a crash repeats all of it.
        """
        decided = {
            keys.INSTANCE_TYPE: type_name,
            keys.ZONE: zone,
            keys.CAPACITY_TYPE: capacity_type,
            keys.AWS_PREFIX + "instance-ami-id": image,
        }
        metadata: dict[str, Any] = {"labels": {**instance_labels(kind), **decided}}
        price = price_of(kind, zone, capacity_type)
        if price is not None:
            metadata["annotations"] = {keys.PRICE_ANNOTATION: str(price)}
        await self._patch(machine, metadata)
        status: dict[str, Any] = {"providerID": f"aws:///{zone}/{instance}"}
        if machine.generation_api == V1:
            status["imageID"] = image
        if kind is not None:
            status["capacity"] = format_resources(kind.capacity)
            status["allocatable"] = format_resources(kind.allocatable())
        condition = Condition("True", LAUNCHED, "", self.clock.now())
        await self.machines.write_condition(machine, LAUNCHED, condition, status)

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

    async def delete(self, machine: Machine, reason: str) -> None:
        """Order the termination of this Machine."""
        if not await self.machines.delete(machine):
            return
        order = TerminateMachine.of(machine, reason)
        await self.tell(streams.TERMINATIONS, order, machine.uid)

    async def tell(self, stream: str, message: Message, cause: str) -> None:
        """Send news."""
        await send(self.bus, stream, message, cause=cause, clock=self.clock)

    async def event(self, machine: Machine, kind: str, reason: str, text: str) -> None:
        """A Kubernetes event on the Machine."""
        await self.recorder.publish(to_machine(machine), kind, reason, text)


def instance_labels(kind: InstanceType | None) -> dict[str, str]:
    """The type's labels with one value (LCH-59)."""
    if kind is None:
        return {}
    return {key: values[0] for key, values in kind.labels.items() if len(values) == 1}


def price_of(kind: InstanceType | None, zone: str, capacity_type: str) -> int | None:
    """Micro-USD an hour of one offering, None when unknown."""
    for offering in kind.offerings if kind else ():
        if (offering.zone, offering.capacity_type) == (zone, capacity_type):
            return offering.price_micro_usd_per_hour
    return None
