"""Instances of ours that no Machine owns and no open launch will adopt: their end is ordered (LCH-81, LCH-83, F24).

The terminator ends them; the launcher's role in AWS could not.

An instance must be without owner in every sweep for a grace time (R7), which is longer than the 30 seconds of LCH-81.
Then the Machine and the record that it names are read one by one: a list that left one of them out is a wrong list,
and nothing is ended (F23).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from services.launcher.garbage_collection.confirmation import Breaker, Confirmation
from services.launcher.garbage_collection.held_deletions import ANY_POOL, HeldDeletions
from services.launcher.garbage_collection.inventory import Inventory
from services.launcher.machine_writer import MachineWriter
from shared.cloud.ec2.ownership import GONE_STATES, TOKEN_TAG, machine_of, pool_of
from shared.cloud.ec2.records import Instance
from shared.concurrency.clock import Clock
from shared.domain.nodes import provider_instance_id
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS, NODES
from shared.log import get_logger
from shared.settings import LauncherSettings

log = get_logger(__name__)

DIRECTION = "instances without a machine"
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


@dataclass
class OrphanedInstances:
    """Orders the end of instances whose loss is confirmed."""

    kube: Kube
    store: Machines
    writer: MachineWriter
    clock: Clock
    settings: LauncherSettings
    breaker: Breaker
    deletions: HeldDeletions
    seen: Confirmation = field(default_factory=Confirmation)

    async def end(self, inventory: Inventory) -> None:
        """Order the end of those that this sweep confirms."""
        if not inventory.readable:
            return  # an instance may belong to a Machine that cannot be read; the log names it
        lost = {one.id: one for one in orphaned_instances(inventory)}
        now = self.clock.monotonic()
        names = self.seen.confirmed(lost, now=now, grace=self.settings.garbage_grace)
        held = await self._sift([lost[name] for name in names], inventory) if names else set()
        self.deletions.release(DIRECTION, held)

    async def _sift(self, confirmed: list[Instance], inventory: Inventory) -> set[str]:
        """Order the end of what the breaker and every single read let through. Returns the pools that are held back."""
        pools: dict[str, list[Instance]] = defaultdict(list)
        for one in confirmed:
            pools[pool_of(one)].append(one)
        admitted: list[Instance] = []
        held = set()
        for pool, found in pools.items():
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
        return self.breaker.admits(pool, names, total, now=self.clock.monotonic())

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
            machine = await self.store.get(key)
        except NotFound:
            return False
        except InvalidObject:
            return True
        return provider_instance_id(machine.provider_id) == instance.id

    async def _is_adoptable(self, instance: Instance) -> bool:
        token = instance.tags.get(TOKEN_TAG)
        if not token:
            return False
        try:
            await self.kube.get(LAUNCH_RECORDS, token)
        except NotFound:
            return False
        return True

    async def _end(self, doomed: list[Instance], inventory: Inventory) -> None:
        # The node before the instance: after a crash in between the instance is still without owner, and found again.
        ids = {one.id for one in doomed}
        for node in inventory.nodes.readable:
            if provider_instance_id(node.provider_id) in ids:
                try:
                    await self.kube.delete(NODES, node.name, uid=node.uid)
                except (NotFound, Conflict):
                    continue
        log.warning("garbage collecting instances without a machine", instances=sorted(ids))
        await self.writer.end_instances(sorted(ids), "no machine owns it")
