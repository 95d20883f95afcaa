"""What becomes of a Machine after an attempt to launch it: it has its instance, goes, or waits (LCH-64, LCH-65)."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from services.launcher.launch_template.content import TENANCY, partition_of, tenancy_of
from services.launcher.machine_writer import LaunchedInstance, MachineWriter
from services.launcher.node_class.controller import NodeClasses
from shared import streams
from shared.clock import Clock
from shared.domain import labels as keys
from shared.domain.instance_sizes import adapted
from shared.domain.instance_types import EFA, InstanceType
from shared.domain.machines import LAUNCHED, Condition, Machine
from shared.domain.nodepools import V1
from shared.domain.resources import format_resources
from shared.domain.size_settings import SizeSettings
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.machines import Machines
from shared.log import get_logger
from shared.messages import LaunchFailed
from shared.metrics import Metrics
from shared.mirror.offerings import CatalogueSource

log = get_logger(__name__)

NO_CAPACITY = "InsufficientCapacityError"
CLASS_NOT_READY = "NodeClassNotReady"
STALE_EPOCH = "StaleEpoch"
_METRIC_REASONS = {
    NO_CAPACITY: "insufficient_capacity",
    CLASS_NOT_READY: "nodeclass_not_ready",
    STALE_EPOCH: "stale_epoch",
}
LONGEST_MESSAGE = 500


@dataclass
class LaunchResults:
    """Writes it to the Machine, and tells who must know. Every method may be repeated after a crash."""

    machines: Machines
    writer: MachineWriter
    clock: Clock
    metrics: Metrics
    catalogues: CatalogueSource
    node_classes: NodeClasses

    async def launched(self, machine: Machine, given: LaunchedInstance) -> bool:
        """It has this instance. False if it is gone meanwhile or has another: then the sweep ends the instance."""
        kind = await self._kind(machine, given.instance_type)
        v1 = machine.generation_api == V1
        labels = self._place_labels(machine, given) if v1 else {}
        profile = self.node_classes.profile_of(machine.node_class_key) if v1 else ""
        authority = self.node_classes.cluster.authority() if v1 else ""
        given = replace(given, labels=labels, profile=profile, authority=authority)
        if not await self.writer.launched(machine, given, kind):
            log.warning("instance is nobody's", machine=machine.name, id=given.id)
            return False
        self.metrics.count_event(machine, "launched")
        _tell(machine, given, kind)
        return True

    def _place_labels(self, machine: Machine, given: LaunchedInstance) -> dict[str, str]:
        """What only v1 says of the place where an instance runs."""
        place = self.node_classes.place_labels(
            machine.node_class_key, given.zone, given.reservation_id
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
        try:
            node_class = await self.node_classes.read(machine.node_class_key)
            settings = SizeSettings.of(machine, node_class)
            return _with_adapters(adapted(kind, settings), machine, settings)
        except (NotFound, InvalidObject) as error:
            log.warning("using the usual sizes", machine=machine.name, error=error.message)
            return kind

    async def give_up(self, machine: Machine, reason: str, message: str) -> None:
        """LCH-64: the Machine goes, its pods are planned anew without what failed."""
        log.warning("deleting machine", machine=machine.name, reason=reason, error=message)
        await self.writer.event(
            machine, "Warning", reason, f"{machine.kind} {machine.name} event: {message}"
        )
        why = _METRIC_REASONS[reason]
        self.metrics.count_disrupted(machine, why)
        await self.writer.delete(machine, why.replace("_", " "))
        failed = LaunchFailed(machine=machine.key, reason=message[:256])
        await self.writer.tell(streams.MACHINES, failed, machine.uid)

    async def next_attempt(self, machine: Machine, attempt: int) -> None:
        """The next call for it has this number, and so another client token."""
        try:
            await self.machines.patch(
                machine, {"annotations": {keys.ATTEMPT_ANNOTATION: str(attempt)}}
            )
        except (NotFound, Conflict) as error:
            log.info("machine changed meanwhile", machine=machine.name, error=error.message)

    async def report(
        self, machine: Machine, reason: str, message: str, *, event: bool = True
    ) -> None:
        """LCH-65: say on the object why there is no instance yet."""
        log.warning("launch failed, trying again", machine=machine.name, error=message)
        if event:
            await self.writer.event(machine, "Warning", "LaunchFailed", message)
        await self.wait(machine, reason, message)

    async def wait(self, machine: Machine, reason: str, message: str) -> None:
        """Say what it waits for."""
        condition = Condition("Unknown", reason, message[:LONGEST_MESSAGE], self.clock.now())
        await self.writer.condition(machine, LAUNCHED, condition)


def _with_adapters(kind: InstanceType, machine: Machine, settings: SizeSettings) -> InstanceType:
    """IT-18: an instance has the adapters that its class lists or its pods asked for, not all that it could have."""
    is_asked = settings.efa_interfaces is not None or machine.requests.get(EFA, 0) > 0
    if is_asked or EFA not in kind.capacity:
        return kind
    rest = {name: amount for name, amount in kind.capacity.items() if name != EFA}
    return replace(kind, capacity=rest)


def _tell(machine: Machine, given: LaunchedInstance, kind: InstanceType | None) -> None:
    """LCH-72, in each generation's words. A v1alpha5 line names the host, once EC2 shows the instance."""
    where = {
        "instance-type": given.instance_type,
        "zone": given.zone,
        "capacity-type": given.capacity_type,
    }
    if machine.generation_api == V1:
        log.info(
            "launched nodeclaim",
            NodeClaim={"name": machine.name},
            **{"provider-id": given.provider_id, **where},
            allocatable=format_resources(kind.allocatable()) if kind else {},
        )
        return
    log.info(
        "launched new instance",
        provisioner=machine.pool,
        machine=machine.name,
        id=given.id,
        hostname=given.hostname,
        **where,
    )


def attempt_of(machine: Machine) -> int:
    """Definite failures so far."""
    text = machine.annotations.get(keys.ATTEMPT_ANNOTATION) or ""
    return int(text) if text.isascii() and text.isdigit() else 0
