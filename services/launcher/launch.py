"""The launch saga: intent, effect, record (F1).

1. read the Machine: still wanted, no instance yet?
2. write a LaunchRecord with the exact request and its client token; no record, no call
3. CreateFleet with that token: a repeat of the same call gives the same instance
4. write the instance to the Machine's status and labels
5. delete the record, tell the scheduler

Stopped dead anywhere, the next look at the Machine (by message or by timed listing) finds the record and
goes on from 3. An unknown outcome (timeout, 5xx) is repeated with the same token; a definite failure is a new
attempt with a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.launcher.fleet import (
    TOKEN_TAG,
    choose,
    cluster_tag,
    fleet_request,
    instance_tags,
    launch_token,
)
from services.launcher.node_classes import NodeClasses
from services.launcher.templates import Templates
from services.launcher.writing import Writer
from shared import streams
from shared.bus import RetryLater
from shared.clock import Clock, rfc3339
from shared.cloud.errors import is_capacity_error
from shared.cloud.records import FleetResult
from shared.cloud.session import Cloud
from shared.domain import labels as keys
from shared.domain.instance_sizes import adapted
from shared.domain.instance_types import InstanceType
from shared.domain.machines import LAUNCHED, Condition, Machine
from shared.domain.size_settings import SizeSettings
from shared.domain.snapshot import OfferingKey
from shared.errors import (
    AlreadyExists,
    InsufficientCapacity,
    InvalidObject,
    LaunchRejected,
    NotFound,
    TransientError,
    Unauthorized,
)
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.messages import LaunchFailed, MachineLaunched
from shared.metrics import Metrics
from shared.mirror.offerings import CatalogueStore, UnavailableOfferings
from shared.settings import LauncherSettings

log = get_logger(__name__)

RETRY_SECONDS = 2.0
LIVE_STATES = frozenset({"pending", "running"})
Object = dict[str, Any]


@dataclass
class Launch:
    """Brings one Machine to an instance."""

    kube: Kube
    machines: Machines
    cloud: Cloud
    clock: Clock
    settings: LauncherSettings
    metrics: Metrics
    node_classes: NodeClasses
    templates: Templates
    catalogues: CatalogueStore
    unavailable: UnavailableOfferings
    writer: Writer

    async def launch(self, key: str) -> None:
        """Do what is left to do for this machine. Raises RetryLater while the outcome is unknown."""
        try:
            machine = await self.machines.get(key)
        except NotFound:
            return
        if machine.terminating or machine.provider_id:
            return
        try:
            await self._attempt(machine)
        except InsufficientCapacity as error:
            await self._give_up(machine, "InsufficientCapacityError", error.message)
        except (InvalidObject, Unauthorized) as error:
            await self._report(machine, type(error).__name__, str(error))
            raise RetryLater(self.settings.resync_seconds) from error
        except TransientError as error:
            await self._report(machine, "LaunchFailed", error.message)
            raise RetryLater(RETRY_SECONDS) from error

    async def _attempt(self, machine: Machine) -> None:
        attempt = int(machine.annotations.get(keys.ATTEMPT_ANNOTATION) or 0)
        token = launch_token(machine.uid, attempt)
        record = await self._record(machine, attempt, token)
        try:
            result = await self.cloud.ec2.create_fleet(record["spec"]["request"])
        except NotFound as error:
            # LCH-25: the launch template is gone. The record pins it, so this attempt is over.
            self.templates.forget()
            await self._next_attempt(machine, attempt, token)
            raise RetryLater(RETRY_SECONDS) from error
        except LaunchRejected as error:
            if not await self._adopt(machine, token):
                await self._next_attempt(machine, attempt, token)
                raise RetryLater(RETRY_SECONDS) from error
            return
        await self._remember_shortage(result)
        if not result.instances:
            await self._drop_record(token)
            _raise_for(result)
        instance = result.instances[0]
        images: dict[str, str] = record["spec"].get("images") or {}
        await self._finish(
            machine, token, instance.id, instance.instance_type, instance.zone or "",
            instance.capacity_type, images.get(instance.launch_template_id, ""),
        )  # fmt: skip

    async def _record(self, machine: Machine, attempt: int, token: str) -> Object:
        """The stored intent of this attempt, made now if there is none."""
        try:
            return await self.kube.get(LAUNCH_RECORDS, token)
        except NotFound:
            request, images = await self._request(machine, token)
        body = {
            "metadata": {"name": token},
            "spec": {
                "machines": [{"kind": machine.kind, "name": machine.name, "uid": machine.uid}],
                "clientToken": token,
                "attempt": attempt,
                "request": request,
                "images": images,
                "epoch": 0,
                "createdAt": rfc3339(self.clock.now()),
            },
        }
        try:
            return await self.kube.create(LAUNCH_RECORDS, body)
        except AlreadyExists:
            return await self.kube.get(LAUNCH_RECORDS, token)

    async def _request(self, machine: Machine, token: str) -> tuple[Object, dict[str, str]]:
        """The request, and the image of each of its templates, which EC2 will not say in its answer (LCH-58)."""
        catalogue = await self.catalogues.get()
        if catalogue is None:
            raise RetryLater(RETRY_SECONDS)
        resolved = await self.node_classes.resolve(machine.node_class_key)
        subnets = resolved.subnet_by_zone()
        unavailable = await self.unavailable.current()
        sizes = SizeSettings.of(machine, resolved.node_class)
        capacity_type, choices = choose(machine, catalogue, subnets, unavailable, sizes)
        templates = await self.templates.ensure(machine, resolved, choices)
        tags = instance_tags(machine, resolved.node_class, self.settings.cluster_name, token)
        request = fleet_request(
            choices, capacity_type, templates, subnets, tags,
            token=token, context=resolved.node_class.context,
        )  # fmt: skip
        return request, {template.id: template.image for template in templates}

    async def _adopt(self, machine: Machine, token: str) -> bool:
        """EC2 knows the token: is its instance alive? Then it is ours already."""
        tags = {cluster_tag(self.settings.cluster_name): "owned", TOKEN_TAG: token}
        found = await self.cloud.ec2.instances(tags=tags)
        alive = [instance for instance in found if instance.state in LIVE_STATES]
        if not alive:
            return False
        instance = min(alive, key=lambda one: one.id)
        await self._finish(
            machine, token, instance.id, instance.instance_type, instance.zone,
            instance.capacity_type, instance.image_id,
        )  # fmt: skip
        return True

    async def _finish(
        self,
        machine: Machine,
        token: str,
        instance: str,
        type_name: str,
        zone: str,
        capacity_type: str,
        image: str,
    ) -> None:
        kind = await self._kind(machine, type_name)
        await self.writer.launched(machine, instance, type_name, zone, capacity_type, image, kind)
        await self._drop_record(token)
        log.info(
            "launched instance",
            machine=machine.name,
            id=instance,
            instance_type=type_name,
            zone=zone,
            capacity_type=capacity_type,
        )
        await self.writer.tell(streams.MACHINES, MachineLaunched(machine=machine.key), machine.uid)

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
            return adapted(kind, SizeSettings.of(machine, node_class))
        except (NotFound, InvalidObject) as error:
            log.warning("using the usual sizes", machine=machine.name, error=error.message)
            return kind

    async def _remember_shortage(self, result: FleetResult) -> None:
        """LCH-61: what EC2 has not got is not asked for again for three minutes."""
        short: list[OfferingKey] = []
        for error in result.errors:
            zone = error.zone or ""
            self.metrics.launch_failures.labels(zone, error.capacity_type, error.code).inc()
            if is_capacity_error(error.code) and error.instance_type and zone:
                short.append((error.capacity_type, error.instance_type, zone))
        if short:
            log.info("offerings are unavailable", offerings=[":".join(key) for key in short])
            await self.unavailable.mark(short, seconds=self.settings.unavailable_seconds)

    async def _next_attempt(self, machine: Machine, attempt: int, token: str) -> None:
        await self.machines.patch(
            machine, {"annotations": {keys.ATTEMPT_ANNOTATION: str(attempt + 1)}}
        )
        await self._drop_record(token)

    async def _drop_record(self, token: str) -> None:
        try:
            await self.kube.delete(LAUNCH_RECORDS, token)
        except NotFound:
            return

    async def _give_up(self, machine: Machine, reason: str, message: str) -> None:
        """LCH-64: the Machine goes, its pods are planned anew without the offerings that failed."""
        await self.writer.event(
            machine, "Warning", reason, f"{machine.kind} {machine.name} event: {message}"
        )
        log.warning("no capacity, deleting machine", machine=machine.name, error=message)
        self.metrics.machines_disrupted.labels(
            "insufficient_capacity", machine.pool, machine.capacity_type
        ).inc()
        await self.writer.delete(machine, "insufficient capacity")
        failed = LaunchFailed(machine=machine.key, reason=message[:256])
        await self.writer.tell(streams.MACHINES, failed, machine.uid)

    async def _report(self, machine: Machine, reason: str, message: str) -> None:
        """LCH-65: say on the object why there is no instance yet."""
        log.warning("launch failed, trying again", machine=machine.name, error=message)
        await self.writer.event(machine, "Warning", "LaunchFailed", message)
        condition = Condition("Unknown", reason, message[:500], self.clock.now())
        await self.writer.condition(machine, LAUNCHED, condition)


def _raise_for(result: FleetResult) -> None:
    """An empty fleet: whatever EC2 says, the Machine goes and its pods are planned anew (LCH-64)."""
    texts = sorted({f"{error.code}: {error.message}" for error in result.errors})
    text = "; ".join(texts)[:500] or "EC2 launched nothing and gave no reason"
    raise InsufficientCapacity(text)
