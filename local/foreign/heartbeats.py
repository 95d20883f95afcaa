"""Leases of simulated nodes. Without renewal a real control plane declares a node dead after about 40 seconds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from local.cluster.control_plane.informers import Obj
from local.cluster.kubelet.fleet import Fleet
from local.foreign.remote_store import RemoteStore
from shared.concurrency.clock import Clock, rfc3339
from shared.errors import AlreadyExists, NotFound
from shared.kube.client import Kube
from shared.kube.resources import LEASES

NAMESPACE = "kube-node-lease"
RENEW_SECONDS, LEASE_SECONDS = 10.0, 40
"""The values of real kubelets."""


@dataclass(frozen=True)
class Heartbeats:
    """Renews the Lease of each node in the fleet."""

    store: RemoteStore
    kube: Kube
    fleet: Fleet
    clock: Clock
    labels: dict[str, str]

    async def run(self) -> None:
        """Renew until cancelled. Write errors are raised; the caller supervises and restarts this loop."""
        while True:
            await self.renew_all()
            await asyncio.sleep(RENEW_SECONDS)

    async def renew_all(self) -> None:
        """Renew every Lease once. Raises the error of a failed write."""
        for node in list(self.store.objects["nodes"].values()):
            if self.fleet.lives_on(node):
                await self._renew(node)

    async def _renew(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        renewed = {"renewTime": _micro_time(self.clock.now())}
        try:
            await self.kube.patch(LEASES, name, {"spec": renewed}, NAMESPACE)
        except NotFound:
            await self._create(node, renewed)

    async def _create(self, node: Obj, renewed: dict[str, str]) -> None:
        name, uid = node["metadata"]["name"], node["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        metadata = {"name": name, "labels": self.labels, "ownerReferences": [owner]}
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, **renewed}
        try:
            await self.kube.create(LEASES, {"metadata": metadata, "spec": spec}, NAMESPACE)
        except AlreadyExists:
            return  # Another writer changed the Lease in between; the next round renews it.


def _micro_time(now: float) -> str:
    return f"{rfc3339(now).removesuffix('Z')}.{int(now % 1 * 1e6):06d}Z"
