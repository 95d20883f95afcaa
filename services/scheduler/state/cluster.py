"""The cluster as decisions may be made from it: the view, what AWS offers, and whether both may be acted on (OPS-13).

The view is the mirror, and Machines that we created and the mirror does not show yet. Without the latter a second plan,
made before the watcher saw the first one's Machines, would buy twice (BAT-05). One is dropped when the mirror shows it,
or when the mirror is at or past the version that the API server gave it and does not show it: then it is gone. Never by
the clock: a mirror may stand still for as long as it likes. There are no more of them than were planned since it stood
still, and the planner plans nothing once it notices that.

The catalogue is what AWS sells, what administrators correct, and what is paid for already. Only the first and the last
come from stores of their own, which may lag behind the cluster. A store that does not cover a node class that the
mirror calls ready is named in the catalogue's ``lacking``, and the solver plans nothing for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.concurrency.clock import Clock
from shared.disruption.pod_blocks import holds, pdb_block
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.overlays import Overlay
from shared.domain.instance_types.shortages import Shortages
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools import hours
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.records import (
    MACHINES,
    NODE_CLASSES,
    NODE_OVERLAYS,
    NODE_POOLS,
    NODES,
    PODS,
)
from shared.domain.snapshot import OfferingKey, Snapshot, moving_pods
from shared.domain.workloads.pdbs import PodDisruptionBudget
from shared.domain.workloads.pods import ENDED, Pod, is_provisionable
from shared.domain.workloads.scale_down import judged, waiting_longer
from shared.kube import resources
from shared.kube.machines import Stored
from shared.redis.bus import Bus
from shared.redis.mirror import MirrorReader
from shared.redis.mirror.catalogue.offerings import (
    CatalogueSource,
    CatalogueStore,
    UnavailableOfferings,
)
from shared.redis.mirror.catalogue.overlays import OverlaidCatalogues
from shared.redis.mirror.catalogue.reservations import ReservationStore, ReservedCatalogues
from shared.redis.mirror.catalogue.shortages import ShortageHistory
from shared.redis.mirror.pending_writes import PendingWrites
from shared.redis.mirror.trust import clock_doubt, not_synced
from shared.settings import SchedulerSettings
from shared.simulation.decisions.assembling import DecodedRecords, assembled

_PLURALS = {one.kind: one.plural for one in (resources.MACHINES, resources.NODE_CLAIMS)}
PATIENCE_SECONDS = 5.0
"""A doubt that lasts for less is about to be settled: nothing is decided meanwhile, but readiness does not report
it."""


@dataclass
class View:
    """Typed records, decoded once per change."""

    reader: MirrorReader
    _decoded: DecodedRecords = field(default_factory=DecodedRecords)
    priority_cutoff: int | None = None
    """Pods below it are expendable."""
    unneeded_seconds: float = 0.0
    """``consolidateAfter`` of pools that have the API's default."""
    created: PendingWrites[str, Stored] = field(default_factory=PendingWrites)
    """Machines by key, as the API server answered."""
    _machines: tuple[Mapping[str, Machine], Sequence[Machine]] = ({}, ())
    """Those of the mirror when ``machines`` was called last, in both forms."""
    _pods: tuple[Mapping[str, Pod], Sequence[Pod]] = ({}, ())
    _pools: tuple[Mapping[str, NodePool], dict[str, NodePool]] = ({}, {})
    """Those of the mirror when they were asked for last, and as they count."""

    def records(self, kind: str) -> Mapping[str, Any]:
        """Key -> record of one kind, as the mirror has it now. The same object while nothing changes."""
        records = self._decoded.of(kind, self.reader.bodies(kind))
        if kind == NODE_POOLS and self.unneeded_seconds:
            return self._waiting_longer(records)
        if kind != PODS or self.priority_cutoff is None:
            return records
        cutoff = self.priority_cutoff
        return {key: judged(pod, cutoff) for key, pod in records.items()}

    def _waiting_longer(self, shown: Mapping[str, NodePool]) -> Mapping[str, NodePool]:
        """A pool that has not changed is the same object as before: what follows from it is kept by that."""
        before, made = self._pools
        if before is not shown:
            made = {
                key: made[key]
                if before.get(key) is pool
                else waiting_longer(pool, self.unneeded_seconds)
                for key, pool in shown.items()
            }
            self._pools = shown, made
        return made

    def machines(self) -> Sequence[Machine]:
        """All machines, ours of a moment ago included. The same object while nothing changes."""
        shown = self.records(MACHINES)
        ours = self.created.unshown(lambda key, stored: self._is_settled(stored, shown.get(key)))
        if not ours:
            if self._machines[0] is not shown:
                self._machines = shown, tuple(shown.values())
            return self._machines[1]
        # Ours replace namesakes: the mirror shows the machine that had the name before.
        return tuple({**shown, **{key: one.machine for key, one in ours.items()}}.values())

    def assume(self, stored: Stored) -> None:
        """The API server has this machine."""
        self.created.note(stored.machine.key, stored)

    def _is_settled(self, stored: Stored, shown: Machine | None) -> bool:
        if shown is not None and shown.uid == stored.machine.uid:
            return True
        return self.reader.has_reached(_PLURALS[stored.machine.kind], stored.version)

    def pods(self) -> Sequence[Pod]:
        """All pods that are not finished. The same object while nothing changes."""
        shown = self.records(PODS)
        if self._pods[0] is not shown:
            # No call for each pod: there may be a hundred thousand, and this is asked every second.
            self._pods = shown, tuple([pod for pod in shown.values() if pod.phase not in ENDED])
        return self._pods[1]

    def nodes(self) -> Mapping[str, Node]:
        return self.records(NODES)

    def pools(self) -> Mapping[str, NodePool]:
        """Valid pools by key."""
        return self.records(NODE_POOLS)

    def snapshot(
        self, catalogue: Catalogue, unavailable: frozenset[OfferingKey], shortages: Shortages = ()
    ) -> Snapshot:
        """One immutable picture, in a fixed order."""
        return assembled(
            self.records,
            generation=self.reader.generation,
            machines=self.machines(),
            catalogue=catalogue,
            unavailable=unavailable,
            shortages=shortages,
        )

    def own_machines(self) -> list[Machine]:
        """Machines that we created and the mirror did not show when ``machines`` was called last."""
        return [stored.machine for stored in self.created.values()]


def waiting_pods(pods: Collection[Pod]) -> list[Pod]:
    """Pods that wait for capacity."""
    return [pod for pod in pods if pod.unschedulable and is_provisionable(pod)]


def pods_to_move(snapshot: Snapshot, *, now: float) -> frozenset[str]:
    """UIDs of pods on leaving nodes that need a new home at once (POD-09); ``now`` in seconds since the epoch.

    Those whose eviction is refused now are left out: they stay for a while, so nothing is bought for them yet (POD-10).
    """
    moving = moving_pods(snapshot)
    if not moving:
        return moving
    budgets: dict[str, list[PodDisruptionBudget]] = {}
    for budget in snapshot.pdbs:
        budgets.setdefault(budget.namespace, []).append(budget)
    held = {
        pod.uid
        for pod in snapshot.pods
        if pod.uid in moving
        and (holds(pod, now=now) or pdb_block(pod, budgets.get(pod.namespace, ())))
    }
    return moving - held


@dataclass
class ClusterState:
    settings: SchedulerSettings
    clock: Clock
    view: View
    catalogues: CatalogueSource
    unavailable: UnavailableOfferings
    shortages: ShortageHistory

    def not_synced(self, patience: float = 0.0) -> str:
        """Why the picture of the cluster may not be acted on (OPS-13); empty when it may. A doubt that is younger than
        ``patience`` seconds is not reported."""
        return not_synced(
            self.view.reader,
            now=self.clock.monotonic(),
            max_age=self.settings.mirror_max_age,
            patience=patience,
        )

    def clock_doubt(self) -> str:
        """Why no machine may be deleted for its age, an hour of the day or a delay; empty when it may."""
        return clock_doubt(self.view.reader, self.clock)

    def complaints(self, patience: float) -> list[str]:
        """For ``/readyz``: what keeps planning or disruption from its work."""
        return list(filter(None, [self.not_synced(patience), self.clock_doubt()]))

    async def snapshot(self) -> Snapshot | None:
        """The cluster now; None while there is no catalogue or the picture may not be acted on. Raises
        TransientError."""
        catalogue = await self.catalogues.get()
        if catalogue is None:
            return None
        unavailable, shortages = await self.unavailable.current(), await self.shortages.current()
        # Asked last: the picture may have become doubtful while we waited for Redis.
        if self.not_synced():
            return None
        return hours.at(self.view.snapshot(catalogue, unavailable, shortages), now=self.clock.now())


def catalogue_source(bus: Bus, gates: FeatureGates, view: View) -> CatalogueSource:
    """Reads what may be bought now (NO-01, IT-04)."""

    async def overlays() -> list[Overlay]:
        return list(view.records(NODE_OVERLAYS).values())

    async def pools() -> list[NodePool]:
        return list(view.pools().values())

    def classes() -> list[NodeClass]:
        return list(view.records(NODE_CLASSES).values())

    source: CatalogueSource = CatalogueStore(bus.redis, bus.prefix)
    if gates.node_overlay:
        source = OverlaidCatalogues(source, overlays, pools)
    if gates.reserved_capacity:
        source = ReservedCatalogues(source, ReservationStore(bus.redis, bus.prefix), classes)
    return source
