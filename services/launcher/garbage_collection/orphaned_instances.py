"""Instances of ours that no Machine owns and no open launch will adopt: their end is ordered (LCH-81, LCH-83, F24).

The terminator ends them; the launcher's role in AWS could not.

An instance must look lost in two looks a grace apart (R7), which is longer than the 30 seconds of LCH-81. Then the
Machine and the record that it names are asked for one by one: a list that left one of them out is a wrong list, and
nothing is ended (F23).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from services.launcher.garbage_collection.confirmation import Breaker, Confirmation
from services.launcher.garbage_collection.held_deletions import ANY_POOL, HeldDeletions
from services.launcher.garbage_collection.inventory import Inventory
from services.launcher.machine_writer import MachineWriter
from shared.clock import Clock
from shared.cloud.ownership import GONE_STATES, TOKEN_TAG, machine_of, pool_of
from shared.cloud.records import Instance
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


def orphaned_instances(look: Inventory) -> list[Instance]:
    """Pure: alive, owned by nobody, and of no open launch."""
    return [
        one
        for one in look.instances.values()
        if one.state not in GONE_STATES
        and one.id not in look.owned
        and one.tags.get(TOKEN_TAG) not in look.records
        and one.zone not in look.shifted
    ]


@dataclass
class OrphanedInstances:
    """Orders the end of instances that were lost twice."""

    kube: Kube
    store: Machines
    writer: MachineWriter
    clock: Clock
    settings: LauncherSettings
    breaker: Breaker
    alarm: HeldDeletions
    seen: Confirmation = field(default_factory=Confirmation)

    async def end(self, look: Inventory) -> None:
        """One look's worth."""
        if not look.readable:
            return  # an instance may belong to a Machine that cannot be read; the log names it
        lost = {one.id: one for one in orphaned_instances(look)}
        now = self.clock.monotonic()
        names = self.seen.confirmed(lost, now=now, grace=self.settings.garbage_grace)
        held = await self._sift([lost[name] for name in names], look) if names else set()
        self.alarm.release(DIRECTION, held)

    async def _sift(self, confirmed: list[Instance], look: Inventory) -> set[str]:
        """Order the end of what the breaker and every single question let through; the pools that are held back."""
        pools: dict[str, list[Instance]] = defaultdict(list)
        for one in confirmed:
            pools[pool_of(one)].append(one)
        admitted: list[Instance] = []
        held = set()
        for pool, found in pools.items():
            if self._admits(pool, found, look):
                admitted += found
                continue
            held.add(pool)
            await self.alarm.hold(DIRECTION, pool, [one.id for one in found], TOO_MANY)
        if wrong := await self._wrong_list(admitted, look):
            await self.alarm.hold(DIRECTION, ANY_POOL, [one.id for one in confirmed], wrong)
            return {*held, ANY_POOL}
        if admitted:
            await self._end(admitted, look)
        return held

    def _admits(self, pool: str, found: list[Instance], look: Inventory) -> bool:
        total = sum(pool_of(one) == pool for one in look.instances.values())
        names = [one.id for one in found]
        return self.breaker.admits(pool, names, total, now=self.clock.monotonic())

    async def _wrong_list(self, found: list[Instance], look: Inventory) -> str:
        """Why the lists cannot be trusted; empty when every single question confirms them."""
        for one in found:
            machine = machine_of(one)
            if not look.owned and not machine:
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

    async def _end(self, doomed: list[Instance], look: Inventory) -> None:
        """The node's deletion first: after a crash in between the instance is still an orphan and found again."""
        ids = {one.id for one in doomed}
        for node in look.nodes.readable:
            if provider_instance_id(node.provider_id) in ids:
                try:
                    await self.kube.delete(NODES, node.name, uid=node.uid)
                except (NotFound, Conflict):
                    continue
        log.warning("garbage collecting instances without a machine", instances=sorted(ids))
        await self.writer.end_instances(sorted(ids), "no machine owns it")
