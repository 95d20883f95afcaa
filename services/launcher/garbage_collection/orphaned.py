"""Instances and nodes of ours that no Machine owns (LCH-81, LCH-83, F24).

Instances that no open launch will adopt: their end is ordered. The terminator ends them; the launcher's role in AWS
could not. An instance must be without owner in every sweep for a grace time (R7), which is longer than the 30 seconds
of LCH-81. Then the Machine and the record that it names are read one by one: a list that left one of them out is a
wrong list, and nothing is ended (F23). One without the cluster's tag cannot be ended by any service: no end is ordered,
and it is reported as held for as long as it runs.

Nodes whose instance EC2 calls terminated are deleted. A cloud controller deletes them where one runs; this serves
clusters without one. Only the state that EC2 reports counts: a node whose instance is merely not listed stays. The
deletion is an order, which the terminator carries out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from services.launcher.garbage_collection.breaker import Breaker
from services.launcher.garbage_collection.held_deletions import ANY_POOL, HeldDeletions
from services.launcher.garbage_collection.inventory import Inventory
from services.launcher.machine_writer import MachineWriter
from services.launcher.ports import Ports
from shared.cloud.ec2.ownership import (
    GONE_STATES,
    TOKEN_TAG,
    cluster_tag,
    machine_of,
    may_be_ended,
    pool_of,
)
from shared.cloud.ec2.records import Instance
from shared.concurrency.confirmation import Confirmation
from shared.domain.nodes import Node, provider_instance_id, provider_zone
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.machines import Machines
from shared.kube.reading import or_none
from shared.kube.resources import LAUNCH_RECORDS, NODES
from shared.log import get_logger

log = get_logger(__name__)

DIRECTION = "instances without a machine"
UNTAGGED = "instances without a machine and without the tag of the cluster"
TOO_MANY = "so many at once look like a wrong list; terminate them by hand if it is right"


def orphaned_instances(inventory: Inventory) -> list[Instance]:
    """Those that are alive, owned by nobody, and of no open launch."""
    return [
        one
        for one in inventory.instances.values()
        if one.state not in GONE_STATES
        and one.id not in inventory.owned
        and one.tags.get(TOKEN_TAG) not in inventory.records
        and one.zone not in inventory.shifted
    ]


def by_pool(instances: Iterable[Instance]) -> dict[str, list[Instance]]:
    """The pool's key, which is empty without one, -> its instances."""
    pools: dict[str, list[Instance]] = defaultdict(list)
    for one in instances:
        pools[pool_of(one)].append(one)
    return pools


@dataclass
class OrphanedInstances:
    """Orders the end of instances whose loss is confirmed."""

    ports: Ports
    store: Machines
    writer: MachineWriter
    breaker: Breaker
    deletions: HeldDeletions
    seen: Confirmation = field(default_factory=Confirmation)
    untagged: Confirmation = field(default_factory=Confirmation)
    """Those that no service may end: no reason to sweep sooner."""

    async def end(self, inventory: Inventory) -> None:
        """Order the end of those that this sweep confirms."""
        if not inventory.readable:
            return  # an instance may belong to a Machine that cannot be read; the log names it
        cluster = self.ports.settings.cluster_name
        lost = {one.id: one for one in orphaned_instances(inventory)}
        endable = {name: one for name, one in lost.items() if may_be_ended(one, cluster)}
        confirmed = self._confirmed(self.seen, endable)
        held = await self._sift(confirmed, inventory) if confirmed else set()
        self.deletions.release(DIRECTION, held)
        await self._report_untagged(
            self._confirmed(
                self.untagged, {name: one for name, one in lost.items() if name not in endable}
            )
        )

    def _confirmed(self, seen: Confirmation, lost: Mapping[str, Instance]) -> list[Instance]:
        now, grace = self.ports.clock.monotonic(), self.ports.settings.garbage_grace
        return [lost[name] for name in seen.confirmed(lost, now=now, grace=grace)]

    async def _report_untagged(self, confirmed: Iterable[Instance]) -> None:
        """Held for as long as they run: the terminator's policy would refuse every order anew."""
        pools = by_pool(confirmed)
        tag = cluster_tag(self.ports.settings.cluster_name)
        for pool, found in pools.items():
            why = f"no service may end what lacks the tag {tag}=owned; terminate by hand, or set it"
            await self.deletions.hold(UNTAGGED, pool, [one.id for one in found], why)
        self.deletions.release(UNTAGGED, pools)

    async def _sift(self, confirmed: list[Instance], inventory: Inventory) -> set[str]:
        """Order the end of what the breaker and every single read let through. Returns the pools that are held back."""
        admitted: list[Instance] = []
        held = set()
        for pool, found in by_pool(confirmed).items():
            if self._admits(pool, found, inventory):
                admitted += found
                continue
            held.add(pool)
            await self.deletions.hold(DIRECTION, pool, [one.id for one in found], TOO_MANY)
        if wrong := await self._wrong_list(admitted, inventory):
            await self.deletions.hold(DIRECTION, ANY_POOL, [one.id for one in confirmed], wrong)
            return {*held, ANY_POOL}
        if admitted:
            await self._end(admitted, inventory)
        return held

    def _admits(self, pool: str, found: list[Instance], inventory: Inventory) -> bool:
        total = sum(pool_of(one) == pool for one in inventory.instances.values())
        names = [one.id for one in found]
        return self.breaker.admits(pool, names, total, now=self.ports.clock.monotonic())

    async def _wrong_list(self, found: list[Instance], inventory: Inventory) -> str:
        """Why the lists cannot be trusted; empty when every single read confirms them."""
        for one in found:
            machine = machine_of(one)
            if not inventory.owned and not machine:
                return "there is no machine at all; is this the right cluster?"
            if machine and await self._is_claimed(machine, one):
                return f"the list of machines left out {machine}"
            if await self._is_adoptable(one):
                return f"the list of launch records left out that of {one.id}"
        return ""

    async def _is_claimed(self, key: str, instance: Instance) -> bool:
        try:
            machine = await or_none(self.store.get(key))
        except InvalidObject:
            return True
        return machine is not None and provider_instance_id(machine.provider_id) == instance.id

    async def _is_adoptable(self, instance: Instance) -> bool:
        token = instance.tags.get(TOKEN_TAG)
        reading = self.ports.kube.get(LAUNCH_RECORDS, token) if token else None
        return reading is not None and await or_none(reading) is not None

    async def _end(self, doomed: list[Instance], inventory: Inventory) -> None:
        # The node before the instance: after a crash in between the instance is still without owner, and found again.
        ids = {one.id for one in doomed}
        for node in inventory.nodes.readable:
            if provider_instance_id(node.provider_id) in ids:
                with suppress(NotFound, Conflict):
                    await self.ports.kube.delete(NODES, node.name, uid=node.uid)
        log.warning("garbage collecting instances without a machine", instances=sorted(ids))
        await self.writer.end_instances(sorted(ids), "no machine owns it")


def orphaned_nodes(inventory: Inventory) -> list[Node]:
    """Nodes that are ours, not Ready, owned by nobody, and whose instance is not listed as alive."""
    return [
        node
        for node in inventory.nodes.readable
        if node.is_managed
        and not node.ready
        and not node.terminating
        and (instance := provider_instance_id(node.provider_id))
        and instance not in inventory.owned
        and provider_zone(node.provider_id) not in inventory.shifted
        and not inventory.alive(instance)
    ]


@dataclass
class OrphanedNodes:
    """Deletes nodes whose loss is confirmed."""

    ports: Ports
    seen: Confirmation = field(default_factory=Confirmation)

    async def end(self, inventory: Inventory) -> None:
        """Delete those that this sweep confirms."""
        lost = {node.uid: node for node in orphaned_nodes(inventory)} if inventory.readable else {}
        now, grace = self.ports.clock.monotonic(), self.ports.settings.garbage_grace
        nodes = [lost[uid] for uid in self.seen.confirmed(lost, now=now, grace=grace)]
        if not nodes:
            return
        ids = [provider_instance_id(node.provider_id) for node in nodes]
        found = await self.ports.cloud.ec2.instances(ids=ids)
        ended = {one.id for one in found if one.state in GONE_STATES}
        for node in nodes:
            if provider_instance_id(node.provider_id) in ended:
                await self._delete(node)

    async def _delete(self, node: Node) -> None:
        try:
            await self.ports.kube.delete(NODES, node.name, uid=node.uid)
        except (NotFound, Conflict):
            return
        log.info("garbage collecting node without machine and instance", node=node.name)
