"""The sweep that finds what crashed launches and outside hands left behind (LCH-80, LCH-81, F24).

Four kinds of garbage: instances without a Machine (``orphans``), Machines without an instance or a node (``widows``),
nodes without either (``ghosts``), and records of launches that nobody wants any more. The first three are judged by
absence and therefore slowly; the last by what the record says, at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.launcher.garbage_collection.confirmation import Breaker
from services.launcher.garbage_collection.held_deletions import HeldDeletions
from services.launcher.garbage_collection.inventory import Inventory, take_inventory
from services.launcher.garbage_collection.lost_machines import VISIBLE_SECONDS, LostMachines
from services.launcher.garbage_collection.orphaned_instances import OrphanedInstances
from services.launcher.garbage_collection.orphaned_nodes import OrphanedNodes
from services.launcher.machine_writer import MachineWriter
from shared.clock import Clock, parse_rfc3339
from shared.cloud.ownership import GONE_STATES, TOKEN_TAG, cluster_tag
from shared.cloud.session import Cloud
from shared.concurrency.waiting import pause
from shared.domain.launches import is_wanted
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger
from shared.metrics import Metrics
from shared.mirror.pool_health import PoolHealth
from shared.mirror.shifted_zones import ShiftedZones
from shared.settings import LauncherSettings

log = get_logger(__name__)

FIRST_ROUNDS = 20
FIRST_SECONDS = 10.0
"""LCH-81: after a start there may be more to find."""
SUSPICIOUS_SECONDS = 30.0
"""While something looks lost the second look comes soon."""


@dataclass
class GarbageCollection:
    """One look after the other at everything that is ours."""

    kube: Kube
    store: Machines
    cloud: Cloud
    clock: Clock
    settings: LauncherSettings
    writer: MachineWriter
    metrics: Metrics
    health: PoolHealth
    shifted: ShiftedZones
    last_progress: float = field(init=False)
    _rounds: int = 0
    _suspicious: bool = False
    alarm: HeldDeletions = field(init=False)
    _orphans: OrphanedInstances = field(init=False)
    _widows: LostMachines = field(init=False)
    _ghosts: OrphanedNodes = field(init=False)

    def __post_init__(self) -> None:
        self.last_progress = self.clock.monotonic()
        breaker = Breaker()
        self.alarm = HeldDeletions(self.kube, self.writer.recorder, self.metrics)
        self._orphans = OrphanedInstances(
            self.kube, self.store, self.writer, self.clock, self.settings, breaker, self.alarm
        )
        self._ghosts = OrphanedNodes(self.kube, self.cloud, self.clock, self.settings)
        self._widows = LostMachines(
            self.kube, self.cloud, self.clock, self.settings, self.metrics, self.writer,
            self.health, breaker, self.alarm,
        )  # fmt: skip

    async def run(self, stop: asyncio.Event) -> None:
        """Sweep until ``stop``."""
        while not stop.is_set():
            await self.sweep()
            self.last_progress = self.clock.monotonic()
            await pause(stop, self.pause_seconds())

    def pause_seconds(self) -> float:
        """LCH-81: 10 s for the first 20 rounds, then every two minutes, sooner while something looks lost."""
        usual = self.settings.garbage_period
        if self._rounds < FIRST_ROUNDS:
            return min(FIRST_SECONDS, usual)
        return min(SUSPICIOUS_SECONDS, usual) if self._suspicious else usual

    async def sweep(self) -> None:
        """One look, and what follows from it."""
        self._rounds += 1
        look = await take_inventory(
            self.kube,
            self.store,
            self.cloud.ec2,
            self.settings.cluster_name,
            await self.shifted.current(),
        )
        await self._widows.end(look)
        await self._orphans.end(look)
        await self._ghosts.end(look)
        stale = [
            record
            for record in look.records.values()
            if not is_wanted(record, look.machines, look.unreadable_uids)
        ]
        for record in stale:
            await self._end_record(record, look)
        seen = (
            self._orphans.seen,
            self._widows.without_instance,
            self._widows.without_node,
            self._ghosts.seen,
        )
        self._suspicious = bool(stale) or any(one.first for one in seen)

    async def _end_record(self, record: Mapping[str, Any], look: Inventory) -> None:
        """Order the end of what the token started for nobody, and drop the record once EC2 shows nothing (F20)."""
        token = str(record["spec"]["clientToken"])
        tags = {cluster_tag(self.settings.cluster_name): "owned", TOKEN_TAG: token}
        found = await self.cloud.ec2.instances(tags=tags)
        stray = [
            one.id for one in found if one.state not in GONE_STATES and one.id not in look.owned
        ]
        age = self.clock.now() - parse_rfc3339(str(record["spec"]["createdAt"]))
        reachable = [one.id for one in found if one.id in stray and one.zone not in look.shifted]
        if reachable and look.readable:
            log.warning(
                "the instances of a launch that nobody wants are to end", instances=reachable
            )
            await self.writer.end_instances(reachable, "nobody wants its launch")
        elif age > VISIBLE_SECONDS and not stray:
            await self._drop(token)

    async def _drop(self, token: str) -> None:
        try:
            await self.kube.delete(LAUNCH_RECORDS, token)
        except NotFound:
            return
