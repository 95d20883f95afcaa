"""Serves the gauges about the cluster: the leading scheduler's picture of it, taken every few seconds (MET-13).

The picture is taken on the event loop, where records are only gathered; whoever scrapes makes the text of it, in
another thread. A standby serves nothing of the cluster, so that no sum counts a node twice. What may go wrong: the
mirror is old; then the last picture stands, and ``cluster_state_synced`` is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from services.scheduler.provisioning.pod_latency import PodLatency, undecided_text
from services.scheduler.state.cluster import PATIENCE_SECONDS, ClusterState
from services.scheduler.status import cluster_gauges
from shared.concurrency.clock import Clock
from shared.disruption.candidates import offering_prices
from shared.domain.devices.records import ResourceClaim, ResourceSlice
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodePool
from shared.domain.records import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from shared.domain.snapshot import OfferingKey
from shared.domain.workloads.pods import Pod
from shared.errors import TransientError
from shared.log import get_logger
from shared.metrics import Metrics
from shared.runtime.leadership import Leadership
from shared.simulation.ledgers.allocation import charges_of, summed

log = get_logger(__name__)

CHECK_SECONDS = 5.0


class Picture(msgspec.Struct, frozen=True):
    """The cluster at one moment."""

    nodes: tuple[Node, ...]
    machines: tuple[Machine, ...]
    pods: tuple[Pod, ...]
    pools: tuple[NodePool, ...]
    catalogue: Catalogue | None
    unavailable: frozenset[OfferingKey]
    slices: tuple[ResourceSlice, ...]
    claims: tuple[ResourceClaim, ...]
    undecided: dict[str, float]
    """Pod UID -> since when it waits for the first decision about it, in monotonic seconds."""


class Offered(msgspec.Struct, frozen=True):
    """Text about types, and what it was made of."""

    catalogue: Catalogue
    unavailable: frozenset[OfferingKey]
    old: bool
    """Is there a Provisioner, whose users know v0.31's names?"""
    text: str


@dataclass
class ClusterMetrics:
    """``refresh`` runs on the loop, ``text`` in the threads of whoever scrapes."""

    cluster: ClusterState
    leadership: Leadership
    metrics: Metrics
    pod_latency: PodLatency
    undecided: Callable[[], dict[str, float]]
    clock: Clock
    _synced_at: float = field(init=False)
    _picture: Picture | None = None
    _offered: Offered | None = None

    def __post_init__(self) -> None:
        self._synced_at = self.clock.monotonic()

    async def refresh(self) -> None:
        """Take a picture, or drop the last one when another scheduler leads."""
        synced = not self.cluster.not_synced(PATIENCE_SECONDS)
        if synced:
            self._synced_at = self.clock.monotonic()
        if not self.leadership.held:
            self._picture = self._offered = None
            self.metrics.forget_disruption()
            self.metrics.forget_plans()
            self.pod_latency.forget()
        elif synced:
            try:
                catalogue = await self.cluster.catalogues.get()
                unavailable = await self.cluster.unavailable.current()
            except TransientError as error:
                log.debug("cluster metrics are old", error=error.message)
                return
            if self._offered is not None and self._offered.catalogue is not catalogue:
                # Otherwise the old catalogue would stay in RAM until somebody scrapes.
                self._offered = None
            self._picture = self._taken(catalogue, unavailable)
            self.pod_latency.check(self.cluster.view.records(PODS))

    def _taken(self, catalogue: Catalogue | None, unavailable: frozenset[OfferingKey]) -> Picture:
        view = self.cluster.view
        return Picture(
            tuple(view.nodes().values()),
            tuple(view.machines()),
            tuple(view.pods()),
            tuple(view.pools().values()),
            catalogue,
            unavailable,
            tuple(view.records(RESOURCE_SLICES).values()),
            tuple(view.records(RESOURCE_CLAIMS).values()),
            self.undecided(),
        )

    def text(self) -> str:
        """The page that ``/metrics`` gets for the cluster."""
        seconds = self.clock.monotonic() - self._synced_at
        synced = not self.cluster.not_synced(PATIENCE_SECONDS)
        sync = cluster_gauges.sync_text(synced=synced, seconds=seconds)
        picture = self._picture
        if picture is None or self.cluster.settings.disable_cluster_state_observability:
            return sync
        return "".join((
            sync,
            _drawn(picture, now=self.clock.now()),
            undecided_text(picture.pods, picture.undecided, now=self.clock.monotonic()),
            self.pod_latency.text(),
            self._types(picture),
        ))  # fmt: skip

    def _types(self, picture: Picture) -> str:
        """Types change once in a while, nodes all the time."""
        catalogue, unavailable = picture.catalogue, picture.unavailable
        if catalogue is None:
            return ""
        old = any(pool.api.older_names for pool in picture.pools)
        known = self._offered
        if (
            known is None
            or known.catalogue is not catalogue
            or (known.unavailable, known.old) != (unavailable, old)
        ):
            text = cluster_gauges.type_text(catalogue, unavailable, old=old)
            known = self._offered = Offered(catalogue, unavailable, old, text)
        return known.text


def _drawn(picture: Picture, *, now: float) -> str:
    """Nodes and pools; ``now`` in seconds since the epoch."""
    everything, daemons = cluster_gauges.requests_of(picture.pods)
    prices = offering_prices(picture.catalogue) if picture.catalogue else {}
    found = charges_of(picture.machines, picture.nodes, picture.pods, prices)
    nodes = cluster_gauges.labelled_nodes(picture.nodes)
    return (
        cluster_gauges.cluster_text(picture.nodes, everything)
        + cluster_gauges.pool_text(picture.pools, picture.machines, prices)
        + cluster_gauges.namespace_text(summed(found, "namespace"))
        + cluster_gauges.device_text(picture.slices, picture.claims)
        + cluster_gauges.node_text(nodes, everything, daemons)
        + cluster_gauges.lifetime_text(nodes, now=now)
    )
