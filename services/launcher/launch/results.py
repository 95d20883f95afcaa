"""The result of an attempt to launch a Machine: it has its instance, is deleted, or waits (LCH-64, LCH-65)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from msgspec.structs import replace

from services.launcher.launch.assignment import LaunchedInstance, metadata_of, price_of, status_of
from services.launcher.launch_template.content import TENANCY, partition_of, tenancy_of
from services.launcher.machine_writer import MachineWriter
from services.launcher.node_class.controller import NodeClasses
from services.launcher.ports import Ports
from shared.cloud.ec2.ended_instances import STOPPED_REASON
from shared.cloud.ec2.records import FleetInstance
from shared.domain import labels as keys
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.sizes import adapted
from shared.domain.instance_types.types import EFA, InstanceType, of_pool
from shared.domain.machines.machine import LAUNCHED, Condition, Machine
from shared.domain.resources import format_resources
from shared.errors import Conflict, DovetailError, InvalidObject, NotFound
from shared.kube.machines import Machines
from shared.kube.reading import or_none
from shared.log import get_logger
from shared.redis import streams
from shared.redis.messages import LaunchFailed
from shared.redis.mirror.catalogue.offerings import CatalogueSource

log = get_logger(__name__)

HOST_NAMES_SECONDS = 1.0
"""A launch waits no longer for the host names in its log."""

GiveUpReason = Literal[
    "InsufficientCapacityError", "NodeClassNotReady", "StaleEpoch", "InstanceStopped"
]
"""Why a Machine is deleted, as its event says it."""
NO_CAPACITY: Final = "InsufficientCapacityError"
CLASS_NOT_READY: Final = "NodeClassNotReady"
STALE_EPOCH: Final = "StaleEpoch"
_METRIC_REASONS: dict[GiveUpReason, str] = {
    NO_CAPACITY: "insufficient_capacity",
    CLASS_NOT_READY: "nodeclass_not_ready",
    STALE_EPOCH: "stale_epoch",
    STOPPED_REASON: "instance_stopped",
}
LONGEST_MESSAGE = 500


@dataclass
class LaunchResults:
    """Writes the result to the Machine, with its events, metrics and messages. Each method may be repeated."""

    ports: Ports
    machines: Machines
    writer: MachineWriter
    catalogues: CatalogueSource
    node_classes: NodeClasses

    async def launched(self, machine: Machine, instance: LaunchedInstance) -> bool:
        """It has this instance. False if it is gone meanwhile or has another: then the sweep ends the instance."""
        kind = await self._kind(machine, instance.instance_type)
        if machine.api.notes_launch:
            instance = replace(
                instance,
                labels=self._place_labels(machine, instance),
                profile=self.node_classes.profile_of(machine.node_class_key),
                authority=self.node_classes.cluster.authority(),
            )
        if not await self._write(machine, instance, kind):
            log.warning("instance is nobody's", machine=machine.name, id=instance.id)
            return False
        self.writer.remember_launch(instance.provider_id, machine.key)
        self.ports.metrics.count_event(machine, "launched")
        _log_launched(machine, instance, kind)
        await self.writer.event(machine, "Normal", LAUNCHED, bought(machine, instance, kind))
        return True

    async def _write(
        self, machine: Machine, instance: LaunchedInstance, kind: InstanceType | None
    ) -> bool:
        """Labels and annotations first, then the status with the provider id, if the machine has none yet (F1).

        A machine with a provider id counts as launched; until then a crash repeats all of this. So it is written last.
        """

        def has_another(stored: Machine) -> bool:
            return stored.uid != machine.uid or stored.provider_id not in (
                "",
                instance.provider_id,
            )

        stored = await or_none(self.machines.get(machine.key))
        if stored is None or has_another(stored):
            return False
        await self._patch(machine, metadata_of(instance, kind))
        condition = Condition("True", LAUNCHED, "", self.ports.clock.now())
        status = status_of(machine, instance, kind)
        return await self.machines.write_condition(
            machine, LAUNCHED, condition, status, unless=has_another
        )

    async def host_names(self, present: Iterable[tuple[Machine, FleetInstance]]) -> dict[str, str]:
        """Private DNS names by instance id, for the log of v1alpha5 machines (LCH-72). None is waited for long."""
        ids = [one.id for machine, one in present if machine.api.older_names]
        if not ids:
            return {}
        try:
            async with asyncio.timeout(HOST_NAMES_SECONDS):
                found = await self.ports.cloud.ec2.instances(ids=ids)
        except (DovetailError, TimeoutError) as error:
            log.debug("cannot look up host names", error=str(error))
            return {}
        return {instance.id: instance.private_dns_name for instance in found}

    async def _patch(self, machine: Machine, metadata: dict[str, Any]) -> None:
        try:
            await self.machines.patch(machine, metadata)
        except (NotFound, Conflict) as error:
            log.info("machine changed meanwhile", machine=machine.name, error=error.message)

    def _place_labels(self, machine: Machine, instance: LaunchedInstance) -> dict[str, str]:
        """Labels of the place where an instance runs, which only v1 has."""
        place = self.node_classes.place_labels(
            machine.node_class_key, instance.zone, instance.reservation_id
        )
        partition = partition_of(machine)
        planned = {keys.PARTITION: partition} if partition and keys.PLACEMENT_GROUP in place else {}
        return {TENANCY: tenancy_of(machine), **place, **planned}

    async def _kind(self, machine: Machine, name: str) -> InstanceType | None:
        """The type with the sizes that this machine gets; None for one that the catalogue does not have.

        An instance that runs is written down, even if its class has become unreadable meanwhile.
        """
        catalogue = await self.catalogues.get()
        kind = next((t for t in catalogue.types if t.name == name), None) if catalogue else None
        if kind is None:
            return None
        kind = of_pool(kind, machine.pool_key)
        try:
            node_class = await self.node_classes.read(machine.node_class_key)
            settings = SizeSettings.of(machine, node_class)
            return _with_adapters(adapted(kind, settings), machine, settings)
        except (NotFound, InvalidObject) as error:
            log.warning("using the usual sizes", machine=machine.name, error=error.message)
            return kind

    async def give_up(self, machine: Machine, reason: GiveUpReason, message: str) -> None:
        """Delete the Machine: its pods are planned anew without what failed (LCH-64)."""
        log.warning("deleting machine", machine=machine.name, reason=reason, error=message)
        await self.writer.event(
            machine, "Warning", reason, f"{machine.kind} {machine.name} event: {message}"
        )
        why = _METRIC_REASONS[reason]
        self.ports.metrics.count_disrupted(machine, why)
        self.writer.trace(machine, "give up machine", error=message, reason=why)
        await self.writer.delete(machine, why.replace("_", " "))
        failed = LaunchFailed(machine=machine.key, reason=message[:256])
        await self.writer.send(streams.MACHINES, failed, machine.uid)

    async def next_attempt(self, machine: Machine, attempt: int) -> None:
        """The next call for it has this number, and so another client token."""
        await self._patch(machine, {"annotations": {keys.ATTEMPT_ANNOTATION: str(attempt)}})

    async def repeats(self, machine: Machine, token: str) -> None:
        """Say on the object that the call with this token may be sent more than once."""
        if machine.annotations.get(keys.REPEATED_CALL_ANNOTATION) != token:
            await self._patch(machine, {"annotations": {keys.REPEATED_CALL_ANNOTATION: token}})

    async def report(
        self, machine: Machine, reason: str, message: str, *, event: bool = True
    ) -> None:
        """Write on the object why there is no instance yet (LCH-65), unless it says so already: a machine that waits
        for minutes would be read and logged at each attempt."""
        if _says(machine, message):
            return
        log.warning("launch failed, trying again", machine=machine.name, error=message)
        if event:
            await self.writer.event(machine, "Warning", "LaunchFailed", message)
        await self.wait(machine, reason, message)

    async def wait(self, machine: Machine, reason: str, message: str) -> None:
        """Write what it waits for in its condition Launched, unless that says so already."""
        if _says(machine, message):
            return
        condition = Condition("Unknown", reason, message[:LONGEST_MESSAGE], self.ports.clock.now())
        await self.machines.write_condition(machine, LAUNCHED, condition)


def _says(machine: Machine, message: str) -> bool:
    known = machine.conditions.get(LAUNCHED)
    return known is not None and known.message == message[:LONGEST_MESSAGE]


def _with_adapters(kind: InstanceType, machine: Machine, settings: SizeSettings) -> InstanceType:
    """An instance has the adapters that its class lists or its pods asked for, not all that it could have (IT-18)."""
    is_asked = settings.efa_interfaces is not None or machine.requests.get(EFA, 0) > 0
    if is_asked or EFA not in kind.capacity:
        return kind
    rest = {name: amount for name, amount in kind.capacity.items() if name != EFA}
    return replace(kind, capacity=rest)


def bought(machine: Machine, instance: LaunchedInstance, kind: InstanceType | None) -> str:
    """What was bought, and by which decision or for what, for an event. Its price is left out where nobody knows it."""
    price = price_of(kind, instance.zone, instance.capacity_type)
    dollars = "" if price is None else f", ${price / 1e6:.4f} an hour"
    decision = machine.decision[: keys.SHORT_ID]
    reason = f"dovetail explain decision {decision}" if decision else machine.bought_for
    why = f"; why: {reason}" if reason else ""
    return f"{instance.instance_type} in {instance.zone}, {instance.capacity_type}{dollars}{why}"


def _log_launched(machine: Machine, instance: LaunchedInstance, kind: InstanceType | None) -> None:
    """LCH-72, in each generation's words. A v1alpha5 line names the host, once EC2 shows the instance."""
    where = {
        "instance-type": instance.instance_type,
        "zone": instance.zone,
        "capacity-type": instance.capacity_type,
    }
    if machine.api.older_names:
        log.info(
            "launched new instance",
            provisioner=machine.pool,
            machine=machine.name,
            id=instance.id,
            hostname=instance.hostname,
            **where,
        )
        return
    log.info(
        "launched nodeclaim",
        NodeClaim={"name": machine.name},
        **{"provider-id": instance.provider_id, **where},
        allocatable=format_resources(kind.allocatable()) if kind else {},
    )
