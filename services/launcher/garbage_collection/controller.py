"""The sweep that finds what crashed launches and deletions by hand left behind (LCH-80, LCH-81, F24).

Four kinds of garbage: instances without a Machine (``orphaned``), Machines without an instance or a node
(``lost_machines``), nodes without either (``orphaned``), and records of launches that nobody wants any more. The
first three are judged by absence and therefore slowly; the last by what the record says, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from services.launcher.garbage_collection.breaker import Breaker
from services.launcher.garbage_collection.held_deletions import HeldDeletions
from services.launcher.garbage_collection.inventory import Inventory, take_inventory
from services.launcher.garbage_collection.lost_machines import (
    LostMachines,
)
from services.launcher.garbage_collection.orphaned import OrphanedInstances, OrphanedNodes
from services.launcher.machine_writer import MachineWriter
from services.launcher.ports import Ports
from shared.cloud.ec2.ownership import GONE_STATES, TOKEN_TAG, cluster_tag
from shared.cloud.ec2.records import ALL_LISTED_SECONDS
from shared.concurrency.confirmation import Confirmation
from shared.concurrency.waiting import pause
from shared.domain.machines.launches import is_wanted
from shared.errors import NotFound
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones
from shared.redis.mirror.pools.pool_health import PoolHealth

log = get_logger(__name__)

FIRST_ROUNDS = 20
FIRST_ROUNDS_SECONDS, SOUND_ROUNDS_SECONDS = 10.0, 20.0
"""After a start there may be more to find (LCH-81). The second: while nothing seems lost, since what is lost must be
seen twice, a minute apart, before anything is ended."""
SUSPICIOUS_SECONDS = 30.0
"""While something seems lost the second sweep comes soon."""
RESTS = 10
"""While nothing seems lost a pause is so many times as long as the sweep took: one of 5,000 instances takes seconds."""


@dataclass
class GarbageCollection:
    """Sweeps again and again through everything that is ours."""

    ports: Ports
    store: Machines
    writer: MachineWriter
    health: PoolHealth
    shifted: ShiftedZones
    last_progress: float = field(init=False)
    _rounds: int = 0
    _took_seconds: float = 0.0
    """The last sweep."""
    _suspicious: bool = False
    deletions: HeldDeletions = field(init=False)
    _unwanted_since: dict[str, float] = field(default_factory=dict)
    """Token of a record -> monotonic time of the first sweep that found it unwanted."""
    _orphaned_instances: OrphanedInstances = field(init=False)
    _lost_machines: LostMachines = field(init=False)
    _orphaned_nodes: OrphanedNodes = field(init=False)

    def __post_init__(self) -> None:
        self.last_progress = self.ports.clock.monotonic()
        breaker = Breaker()
        self.deletions = HeldDeletions(self.ports)
        self._orphaned_instances = OrphanedInstances(
            self.ports, self.store, self.writer, breaker, self.deletions
        )
        self._orphaned_nodes = OrphanedNodes(self.ports)
        self._lost_machines = LostMachines(
            self.ports, self.writer, self.health, breaker, self.deletions
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until ``stop``."""
        while not stop.is_set():
            await self.sweep()
            self.last_progress = self.ports.clock.monotonic()
            await pause(stop, self.pause_seconds())

    def pause_seconds(self) -> float:
        """10 or 20 s for the first 20 rounds, then two minutes, less while something seems lost (LCH-81)."""
        usual = self.ports.settings.garbage_period
        is_young = self._rounds < FIRST_ROUNDS
        if self._suspicious:
            return min(FIRST_ROUNDS_SECONDS if is_young else SUSPICIOUS_SECONDS, usual)
        if is_young:
            return min(max(SOUND_ROUNDS_SECONDS, RESTS * self._took_seconds), usual)
        return usual

    async def sweep(self) -> None:
        """Take an inventory, and end what is garbage by it."""
        self._rounds += 1
        began = self.ports.clock.monotonic()
        inventory = await take_inventory(
            self.ports.kube,
            self.store,
            self.ports.cloud.ec2,
            self.ports.settings.cluster_name,
            await self.shifted.current(),
        )
        # All judge by one inventory: a Machine that is deleted here still owns its instance in the next step, so the
        # terminator ends it once, with its node.
        await self._lost_machines.end(inventory)
        await self._orphaned_instances.end(inventory)
        await self._orphaned_nodes.end(inventory)
        stale = [
            record
            for record in inventory.records.values()
            if not is_wanted(record, inventory.machines, inventory.unreadable_uids)
        ]
        self._note_unwanted(str(record["spec"]["clientToken"]) for record in stale)
        for record in stale:
            await self._end_record(record, inventory)
        seen = self._seen()
        self._suspicious = bool(stale) or any(one.first for one in seen.values())
        self._show({promise: len(one.first) for promise, one in seen.items()}, len(stale))
        self._took_seconds = self.ports.clock.monotonic() - began

    def _seen(self) -> dict[str, Confirmation]:
        """By the promises of ``dovetail audit``, in whose words the metric has them."""
        return {
            "each instance has a machine": self._orphaned_instances.seen,
            "each launched machine has its instance": self._lost_machines.without_instance,
            "each registered machine has its node": self._lost_machines.without_node,
            "each node has a machine": self._orphaned_nodes.seen,
        }

    def _show(self, counts: dict[str, int], stale: int) -> None:
        counts["each instance has a machine"] += len(self._orphaned_instances.untagged.first)
        for promise, count in {**counts, "launch records end": stale}.items():
            self.ports.metrics.unmatched.labels(promise).set(count)

    def _note_unwanted(self, tokens: Iterable[str]) -> None:
        now = self.ports.clock.monotonic()
        self._unwanted_since = {token: self._unwanted_since.get(token, now) for token in tokens}

    def _seconds_unwanted(self, token: str) -> float:
        """By the monotonic clock: a wall clock that jumped makes no record older."""
        return self.ports.clock.monotonic() - self._unwanted_since[token]

    async def _end_record(self, record: Mapping[str, Any], inventory: Inventory) -> None:
        """Order the end of what the token started for nobody, and drop the record once EC2 shows nothing (F20)."""
        token = str(record["spec"]["clientToken"])
        tags = {cluster_tag(self.ports.settings.cluster_name): "owned", TOKEN_TAG: token}
        found = await self.ports.cloud.ec2.instances(tags=tags)
        stray = [
            one.id
            for one in found
            if one.state not in GONE_STATES and one.id not in inventory.owned
        ]
        reachable = [
            one.id for one in found if one.id in stray and one.zone not in inventory.shifted
        ]
        if reachable and inventory.readable:
            log.warning(
                "the instances of a launch that nobody wants are to end", instances=reachable
            )
            await self.writer.end_instances(reachable, "nobody wants its launch")
        elif not stray and self._seconds_unwanted(token) > ALL_LISTED_SECONDS:
            with suppress(NotFound):
                await self.ports.kube.delete(LAUNCH_RECORDS, token)
