"""Machines whose instance or node is gone are deleted (LCH-80, LCH-67, F24).

What EC2 itself calls terminated is proof. What is merely absent is not (F20): then the list must show other instances
of ours, the instance must be missed for so long that EC2 would list a new one, and no more may go than the breaker
allows. A node that was taken off the API server by force, or deleted before it was registered, leaves its Machine lost
too, although the instance runs. So does an instance that somebody stopped before its node joined: its notice came when
no Machine had it.

A Machine must be lost in every sweep for a grace time (R7). A node that is Ready proves its instance, whatever EC2
lists.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from services.launcher.garbage_collection.breaker import Breaker
from services.launcher.garbage_collection.held_deletions import ANY_POOL, HeldDeletions
from services.launcher.garbage_collection.inventory import Inventory
from services.launcher.machine_writer import MachineWriter
from services.launcher.ports import Ports
from shared.api.core.nodes import parse_node
from shared.cloud.ec2.ended_instances import (
    STOPPED_REASON,
    STOPPED_TEXT,
    TERMINATED_REASON,
    termination_message,
    would_end_again,
)
from shared.cloud.ec2.ownership import GONE_STATES, STOPPED_STATES
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.concurrency.confirmation import Confirmation
from shared.domain import labels as keys
from shared.domain.machines.machine import INSTANCE_TERMINATING, REGISTERED, Condition, Machine
from shared.domain.nodes import provider_instance_id, provider_zone
from shared.errors import Conflict, InvalidObject
from shared.kube.reading import or_none
from shared.kube.resources import NODES
from shared.log import get_logger
from shared.redis.mirror.pools.pool_health import PoolHealth

log = get_logger(__name__)

WITHOUT_INSTANCE = "machines without an instance"
WITHOUT_NODE = "machines without a node"
TOO_MANY = "so many at once look like a wrong list; delete them by hand if it is right"
REMOVED = "NodeRemoved"
"""Reason of the event."""


def without_instance(inventory: Inventory) -> list[Machine]:
    """Machines whose instance EC2 does not list as alive, and of which no node is Ready (LCH-80)."""
    ready = {node.provider_id for node in inventory.nodes.readable if node.ready}
    return [
        machine
        for machine in _launched(inventory)
        if not inventory.alive(provider_instance_id(machine.provider_id))
        and machine.provider_id not in ready
    ]


def without_node(inventory: Inventory) -> list[Machine]:
    """Machines whose node was seen before and is missing, while their instance runs (F24)."""
    return [
        machine
        for machine in _launched(inventory)
        if (machine.has(REGISTERED) or _joined(machine))
        and machine.provider_id not in inventory.nodes.provider_ids
        and inventory.alive(provider_instance_id(machine.provider_id))
    ]


def stopped_early(inventory: Inventory) -> list[Machine]:
    """Machines whose instance was stopped before anybody saw their node."""
    return [
        machine
        for machine in _launched(inventory)
        if not machine.has(REGISTERED)
        and not _joined(machine)
        and inventory.state(provider_instance_id(machine.provider_id)) in STOPPED_STATES
    ]


def _joined(machine: Machine) -> str:
    """Name of its node when it was last seen; empty when none was."""
    return machine.node_name or machine.annotations.get(keys.JOINED_ANNOTATION, "")


def _launched(inventory: Inventory) -> Iterable[Machine]:
    for machine in inventory.machines:
        if (
            provider_instance_id(machine.provider_id)
            and not machine.terminating
            and provider_zone(machine.provider_id) not in inventory.shifted
        ):
            yield machine


@dataclass
class LostMachines:
    """Deletes Machines whose loss is confirmed."""

    ports: Ports
    writer: MachineWriter
    health: PoolHealth
    breaker: Breaker
    deletions: HeldDeletions
    without_instance: Confirmation = field(default_factory=Confirmation)
    without_node: Confirmation = field(default_factory=Confirmation)
    stopped: Confirmation = field(default_factory=Confirmation)

    async def end(self, inventory: Inventory) -> None:
        """Delete those that this sweep confirms: without instance, without node, and stopped before they joined."""
        found = self._confirmed(self.without_instance, without_instance(inventory))
        held = await self._end_without_instance(found, inventory) if found else set()
        self.deletions.release(WITHOUT_INSTANCE, held)
        found = self._confirmed(self.without_node, without_node(inventory))
        held = await self._end_without_node(found, inventory) if found else set()
        self.deletions.release(WITHOUT_NODE, held)
        # EC2 says of each what it is, so no number of them is a wrong list.
        for machine in self._confirmed(self.stopped, stopped_early(inventory)):
            await self._delete(machine, STOPPED_REASON, STOPPED_TEXT, again=False)

    def _confirmed(self, seen: Confirmation, lost: list[Machine]) -> list[Machine]:
        by_uid = {machine.uid: machine for machine in lost}
        now, grace = self.ports.clock.monotonic(), self.ports.settings.garbage_grace
        return [by_uid[uid] for uid in seen.confirmed(by_uid, now=now, grace=grace)]

    async def _end_without_instance(self, lost: list[Machine], inventory: Inventory) -> set[str]:
        """Returns the pools that are held back."""
        ids = [provider_instance_id(machine.provider_id) for machine in lost]
        known = {one.id: one for one in await self.ports.cloud.ec2.instances(ids=ids)}
        if any(one.state not in GONE_STATES for one in known.values()):
            why = "EC2 knows them by id but does not list them by tag"
            await self.deletions.hold(WITHOUT_INSTANCE, ANY_POOL, [m.name for m in lost], why)
            return {ANY_POOL}
        absent = []
        for machine in lost:
            instance = known.get(provider_instance_id(machine.provider_id))
            if instance is not None:
                again = would_end_again(instance)
                await self._note_end(machine, instance.stopped_at)
                await self._delete(
                    machine, TERMINATED_REASON, termination_message(instance), again=again
                )
            elif self._missed_seconds(machine) >= ALL_LISTED_SECONDS:
                absent.append(machine)
        if absent and not inventory.instances:
            why = "EC2 lists no instance at all; are region and account right?"
            await self.deletions.hold(WITHOUT_INSTANCE, ANY_POOL, [m.name for m in absent], why)
            return {ANY_POOL}
        text = "its instance is gone and EC2 does not say why; was it terminated by hand?"
        return await self._end_few(WITHOUT_INSTANCE, absent, inventory, (TERMINATED_REASON, text))

    async def _end_without_node(self, lost: list[Machine], inventory: Inventory) -> set[str]:
        """Each node is read by name once more. Returns the pools that are held back."""
        names = [machine.name for machine in lost]
        why = ""
        if not inventory.nodes.provider_ids:
            why = "the API server lists no node at all"
        for machine in lost if not why else ():
            if await self._has_node(machine):
                why = f"the list of nodes left out {_joined(machine)}"
                break
        if why:
            await self.deletions.hold(WITHOUT_NODE, ANY_POOL, names, why)
            return {ANY_POOL}
        cause = (REMOVED, "its node was taken off the cluster while the instance ran")
        return await self._end_few(WITHOUT_NODE, lost, inventory, cause)

    async def _has_node(self, machine: Machine) -> bool:
        name = _joined(machine)
        raw = await or_none(self.ports.kube.get(NODES, name)) if name else None
        try:
            return raw is not None and parse_node(raw).provider_id == machine.provider_id
        except InvalidObject:
            return True

    async def _end_few(
        self, direction: str, lost: list[Machine], inventory: Inventory, cause: tuple[str, str]
    ) -> set[str]:
        """Delete what the breaker lets through, pool by pool. Returns the pools that are held back."""
        pools: dict[str, list[Machine]] = defaultdict(list)
        for machine in lost:
            pools[machine.pool_key].append(machine)
        held = set()
        for pool, found in pools.items():
            total = sum(machine.pool_key == pool for machine in inventory.machines)
            names = [machine.name for machine in found]
            if not self.breaker.admits(pool, names, total, now=self.ports.clock.monotonic()):
                await self.deletions.hold(direction, pool, names, TOO_MANY)
                held.add(pool)
                continue
            for machine in found:
                await self._delete(machine, *cause)
        return held

    async def _note_end(self, machine: Machine, at: float) -> None:
        """From when on it costs nothing, so that no ledger counts the time until this was seen. ``at``: 0 when EC2 does
        not say it."""
        if not at or machine.has(INSTANCE_TERMINATING):
            return
        ended = Condition("True", INSTANCE_TERMINATING, since=at)
        try:
            await self.writer.machines.write_condition(machine, INSTANCE_TERMINATING, ended)
        except Conflict as error:
            log.info("condition not written", machine=machine.name, error=error.message)

    def _missed_seconds(self, machine: Machine) -> float:
        """By the monotonic clock: a wall clock that jumped makes no machine older."""
        now = self.ports.clock.monotonic()
        return now - self.without_instance.first.get(machine.uid, now)

    async def _delete(
        self, machine: Machine, reason: str, text: str, *, again: bool = True
    ) -> None:
        """``again``: the next machine like this one may end the same way (LCH-67)."""
        log.info(
            machine.api.worded("garbage collecting nodeclaim with no cloudprovider representation"),
            machine=machine.name,
            provider_id=machine.provider_id,
            cause=text,
        )
        if not await self.writer.delete(machine, reason):
            return
        self.ports.metrics.count_disrupted(machine, "garbage_collected")
        await self.writer.event(machine, "Warning", reason, text)
        if again and not machine.has(REGISTERED):
            await self.health.failed(machine)
