"""The steps of a Machine's life after its launch: its node is registered, then initialised, or its time is up.

Registration: the node gets labels, annotations, taints, finalizer and owner of its Machine (LCH-73). Initialisation: a
registered node that is ready with all its resources may be used by pods (LCH-75). Liveness: a Machine without an
instance, or without a registered node, is deleted when its time is up (LCH-76).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from services.launcher.lifecycle.stages import (
    REGISTRATION_TIMEOUT,
    lacks_boot_taint,
    registered_annotations,
    registered_labels,
    registered_taints,
    timed_out,
    waits_for,
)
from services.launcher.machine_writer import MachineWriter
from services.launcher.ports import Ports
from shared.api.core.nodes import parse_node, taint_objects
from shared.api.core.references import to_machine
from shared.api.hardware.device_claims import parse_resource_slice
from shared.domain import labels as keys
from shared.domain.devices.drivers import unpublished
from shared.domain.devices.records import ResourceSlice
from shared.domain.machines.machine import (
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Condition,
    Machine,
)
from shared.domain.nodes import Node, provider_instance_id
from shared.errors import Conflict, DovetailError, InvalidObject, NotFound
from shared.kube.machines import Machines
from shared.kube.reading import list_if_served
from shared.kube.resources import NODES, RESOURCE_SLICES
from shared.log import get_logger
from shared.redis.mirror.pools.pool_health import PoolHealth

log = get_logger(__name__)


@dataclass
class LifecycleSteps:
    """Takes each step, and writes on the Machine what it waits for."""

    ports: Ports
    machines: Machines
    writer: MachineWriter
    health: PoolHealth
    learn: Callable[[Machine, Node], Awaitable[None]]
    """Learns from an initialised node what machines of its type really have (IT-12)."""

    async def register(self, machine: Machine, node: Node) -> bool:
        """True when the Machine is registered now; False when its node changed meanwhile."""
        raw = await self.ports.kube.get(NODES, node.name)
        fresh = parse_node(raw)
        if fresh.provider_id != machine.provider_id or fresh.terminating:
            return False  # the name is another machine's by now (F24)
        if lacks_boot_taint(fresh):
            await self.writer.event(
                machine, "Warning", "UnregisteredTaintMissing",
                f"node {node.name} started without the taint {keys.UNREGISTERED_TAINT_KEY}",
            )  # fmt: skip
        # The node before the condition: the condition promises what is on the node.
        try:
            await self.ports.kube.patch(NODES, node.name, self._registered(machine, raw, fresh))
        except (Conflict, NotFound) as error:
            log.info("node changed while it was registered", node=node.name, error=error.message)
            return False
        # nodeName goes with the condition: the scheduler finds the node of a Machine by it.
        condition = Condition("True", REGISTERED, "", self.ports.clock.now())
        await self.machines.write_condition(machine, REGISTERED, condition, {"nodeName": node.name})
        log.info(machine.api.worded("registered nodeclaim"), machine=machine.name, node=node.name)
        where = {"node": node.name, "instance": provider_instance_id(machine.provider_id)}
        self.writer.trace(machine, "register node", after=LAUNCHED, **where)
        self.ports.metrics.count_registered(machine)
        self.ports.metrics.count_event(machine, "registered")
        await self.health.registered(machine)
        return True

    def _registered(
        self, machine: Machine, raw: dict[str, object], fresh: Node
    ) -> dict[str, object]:
        """Labels, annotations, taints, finalizer and owner in one compare-and-set write."""
        metadata: dict[str, object] = raw["metadata"]  # type: ignore[assignment]
        owners: list[dict[str, object]] = metadata.get("ownerReferences") or []  # type: ignore[assignment]
        others = [one for one in owners if one.get("uid") != machine.uid]
        owner = {**to_machine(machine), "blockOwnerDeletion": True}
        return {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "labels": registered_labels(machine),
                "annotations": registered_annotations(machine, self.ports.settings.cluster_name),
                "finalizers": sorted({*fresh.finalizers, keys.FINALIZER}),
                "ownerReferences": [*others, owner],
            },
            "spec": {"taints": taint_objects(registered_taints(machine, fresh))},
        }

    async def say_missing(self, machine: Machine, reason: str) -> None:
        """Write why there is no node, once: a thousand Machines that wait are reviewed again and again."""
        known = machine.conditions.get(REGISTERED)
        if known is None or (known.status, known.reason) != ("Unknown", reason):
            condition = Condition("Unknown", reason, "waiting for the node", self.ports.clock.now())
            await self.machines.write_condition(machine, REGISTERED, condition)

    async def initialize(self, machine: Machine, node: Node, *, registered_before: bool) -> bool:
        """True when something was written. A Machine that was registered just now waits without a condition."""
        reason, message = waits_for(machine, node)
        if not reason:
            reason, message = await self._waits_for_devices(machine, node)
        if not reason:
            await self._initialize(machine.key, node)
            return True
        if registered_before:
            condition = Condition("Unknown", reason, message, self.ports.clock.now())
            await self.machines.write_condition(machine, INITIALIZED, condition)
        return not registered_before

    async def _waits_for_devices(self, machine: Machine, node: Node) -> tuple[str, str]:
        """(reason, message) while a driver has not published its devices (DRA-07); empty for no driver."""
        written = machine.annotations.get(keys.DRA_DRIVERS_ANNOTATION, "").split(",")
        drivers = [name.strip() for name in written if name.strip()]
        if not drivers:
            return "", ""
        listed = await list_if_served(self.ports.kube, RESOURCE_SLICES)
        missing = unpublished(drivers, _slices(listed), node.name)
        if not missing:
            return "", ""
        return (
            "DRADriverPoolsNotPublished",
            f'DRA driver "{missing}" has not published a complete resource pool',
        )

    async def _initialize(self, key: str, node: Node) -> None:
        # The node's label before the condition: the condition promises the label.
        try:
            body = {"metadata": {"uid": node.uid, "labels": {keys.INITIALIZED: "true"}}}
            await self.ports.kube.patch(NODES, node.name, body)
            machine = await self.machines.get(key)
        except (NotFound, Conflict):
            return
        await self.machines.write_condition(
            machine, INITIALIZED, Condition("True", INITIALIZED, "", self.ports.clock.now())
        )
        self.writer.trace(machine, "node ready", after=REGISTERED, node=node.name)
        self.ports.metrics.count_event(machine, "initialized")
        log.info(machine.api.worded("initialized nodeclaim"), machine=machine.name, node=node.name)
        try:
            await self.learn(machine, node)
        except DovetailError as error:
            log.warning("nothing learnt from node", node=node.name, error=error.message)

    async def expire(self, machine: Machine, *, seen_joining: bool) -> bool:
        """Delete a Machine whose time is up. True when it is up.

        ``seen_joining``: this process saw its node missing for a while by its monotonic clock. A wall clock that jumps
        must not end instances that just started.
        """
        settings = self.ports.settings
        reason = timed_out(
            machine,
            now=self.ports.clock.now(),
            launch_seconds=settings.launch_timeout,
            registration_seconds=settings.registration_timeout,
        )
        late = reason == REGISTRATION_TIMEOUT
        if reason is None or (late and not seen_joining):
            return False
        seconds = settings.registration_timeout if late else settings.launch_timeout
        old = machine.api.older_names and late
        text = "terminating due to registration ttl" if old else "terminating due to timeout"
        log.debug(text, machine=machine.name, timeout=seconds, reason=reason)
        if not await self.writer.delete(machine, reason):
            return True
        # Counted after the deletion was ordered: the next review does not order it again, so it counts once.
        self.ports.metrics.count_disrupted(machine, reason)
        after = LAUNCHED if late else ""
        self.writer.trace(machine, "give up machine", after=after, error=text, reason=reason)
        await self.writer.event(
            machine, "Warning", "FailedRegistration" if late else "FailedLaunch",
            f"deleted: no node registered within {seconds:.0f} s; look at the instance's console output"
            if late
            else f"deleted: no instance within {seconds:.0f} s; see the condition Launched",
        )  # fmt: skip
        if late:
            await self.health.failed(machine)
        return True


def _slices(listed: Iterable[Mapping[str, Any]]) -> Iterator[ResourceSlice]:
    """Those that can be read; another one publishes nothing."""
    for raw in listed:
        with suppress(InvalidObject):
            yield parse_resource_slice(raw)
