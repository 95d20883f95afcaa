"""Where the objects of the cluster and its instance types come from: the API server and Redis, or files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import typer

from cli.manifests.simulate import catalogue_of
from cli.stack.bus import connected_bus
from cli.stack.cluster import answering, listed
from shared.api.conditions import READY, known_conditions
from shared.domain.instance_types.overlays import GATE_OFF_REASON
from shared.domain.instance_types.types import Catalogue
from shared.domain.snapshot import OfferingKey
from shared.errors import DovetailError
from shared.kube import resources
from shared.kube.resources import Resource
from shared.redis.mirror.catalogue.offerings import CatalogueStore, UnavailableOfferings

_WORKLOADS = (
    Resource("apps", "v1", "deployments", "Deployment", True),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True),
    Resource("apps", "v1", "statefulsets", "StatefulSet", True),
    Resource("batch", "v1", "jobs", "Job", True),
    Resource("", "v1", "replicationcontrollers", "ReplicationController", True),
)
_KINDS = (
    resources.PODS, resources.NODES, resources.NAMESPACES, resources.PVS, resources.PVCS,
    resources.DAEMON_SETS, resources.PDBS, resources.STORAGE_CLASSES, resources.CSI_NODES,
    resources.PROVISIONERS, resources.MACHINES, resources.AWS_NODE_TEMPLATES, resources.NODE_POOLS,
    resources.NODE_CLAIMS, resources.EC2_NODE_CLASSES, resources.NODE_OVERLAYS,
)  # fmt: skip
_MAKES = {"Deployment": ("Deployment", "ReplicaSet")}


class Held(NamedTuple):
    """``catalogue``: None when it is not in reach, so that the region's is taken."""

    documents: list[Any]
    catalogue: Catalogue | None = None
    unavailable: frozenset[OfferingKey] = frozenset()


async def read_cluster(variables: Mapping[str, str], workloads: frozenset[str]) -> Held:
    """The objects of the cluster that the variables name. ``workloads``: kinds of controllers that the manifests
    change; of others the pods alone count. Raises ConfigurationError and TransientError."""
    wanted = {made for kind in workloads for made in _MAKES.get(kind, (kind,))}
    chosen = (*_KINDS, *(one for one in _WORKLOADS if one.kind in wanted))
    documents: list[Any] = []
    async with answering(variables, command="plan") as kube:
        if await kube.serves(resources.DEVICE_CLASSES):
            chosen = (*chosen, *resources.DEVICE_KINDS)
        for resource in chosen:
            for one in filter(_is_in_force, await listed(kube, resource)):
                documents.append({**one, "apiVersion": resource.api_version, "kind": resource.kind})
    catalogue, unavailable = await _offered(variables)
    return Held(documents, catalogue, unavailable)


def _is_in_force(raw: Mapping[str, Any]) -> bool:
    """False for a NodeOverlay that the launcher says has no effect, because the feature gate is off (NO-01)."""
    ready = known_conditions(raw.get("status")).get(READY)
    return ready is None or ready.reason != GATE_OFF_REASON


async def _offered(
    variables: Mapping[str, str],
) -> tuple[Catalogue | None, frozenset[OfferingKey]]:
    """What the launcher read from AWS, from Redis; nothing when that is not in reach."""
    url, cluster = variables.get("REDIS_URL"), variables.get("CLUSTER_NAME")
    if not url or not cluster:
        return None, frozenset()
    try:
        async with connected_bus(url, cluster) as bus:
            found = await CatalogueStore(bus.redis, bus.prefix).get()
            store = UnavailableOfferings(bus.redis, bus.prefix)
            return found, await store.current()
    except DovetailError as error:
        typer.echo(f"the catalogue of the region is taken: {error.message}", err=True)
        return None, frozenset()


class Catalogues:
    """The catalogue to plan with, read once."""

    def __init__(self, held: Held, region: str) -> None:
        self._held = held
        self._region = region
        self._found = held.catalogue

    def __call__(self) -> Catalogue:
        """Raises what reading the region's catalogue raises."""
        if self._found is None:
            self._found = catalogue_of(self._held.documents, self._region)
        return self._found
