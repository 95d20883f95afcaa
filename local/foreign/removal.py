"""Takes away what a stack made on a cluster that it did not start.

Everything is found by ``LABEL``, so a second removal ends what the first left. The services must not run any more: what
they would finish (machines, their finalizers) is ended here: the instances behind it are gone with the emulator.

What may go wrong: the cluster does not answer (ConfigurationError), for example because it was deleted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from pathlib import Path

from local.foreign.kubeconfig import pick
from local.foreign.objects import CRDS, CREATED, LABEL, Object
from local.foreign.preparation import connected
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import (
    LAUNCH_RECORDS,
    LEASES,
    MACHINES,
    NAMESPACES,
    NODE_CLAIMS,
    NODES,
    PODS,
    Resource,
)

MADE_BY_SERVICES = (LAUNCH_RECORDS, MACHINES, NODE_CLAIMS)
"""Kinds whose objects the services made, whoever made the kind."""
OUR_FINALIZERS = ("karpenter.", "dovetail.")
NODE_LEASES = "kube-node-lease"
NAMESPACE_SECONDS, LOOK_SECONDS = 10.0, 0.25


async def remove(
    kubeconfig: Path, stack: str = "", *, namespace_seconds: float = NAMESPACE_SECONDS
) -> list[str]:
    """Take away what the stack with this id made, or any stack when it is empty.

    ``namespace_seconds``: how long a namespace may take to end. Returns the kinds of which something went. Raises
    ConfigurationError.
    """
    picked = pick(kubeconfig)
    label = f"{LABEL}={stack}" if stack else LABEL
    async with connected(kubeconfig, picked) as kube:
        removal = _Removal(kube, label, namespace_seconds)
        if not await removal.anything():
            return []
        await removal.run()
        return removal.gone


class _Removal:
    def __init__(self, kube: Kube, label: str, namespace_seconds: float) -> None:
        self._kube, self._label, self._namespace_seconds = kube, label, namespace_seconds
        self.gone: list[str] = []

    async def anything(self) -> bool:
        """Whether a stack was here: without a mark nobody's machines are touched."""
        for resource in (*CREATED, NODES):
            if await self._marked(resource):
                return True
        return False

    async def run(self) -> None:
        await self._nodes()
        definitions = await self._marked(CRDS)
        for resource in MADE_BY_SERVICES:
            await self._objects(resource)
        for definition in definitions:
            await self._objects(_resource_of(definition))
        await self._let_go()
        for resource in reversed(CREATED):
            await self._delete(resource, await self._marked(resource))
        await self._end_namespaces()

    async def _end_namespaces(self) -> None:
        """A bare API server has no controller that ends them, and the next start would find them half deleted."""
        for _ in range(math.ceil(self._namespace_seconds / LOOK_SECONDS)):
            left = await self._marked(NAMESPACES)
            if not left:
                return
            await asyncio.sleep(LOOK_SECONDS)
        for namespace in left:
            if not (namespace.get("status") or {}).get("conditions"):  # no controller looked at it
                ended = {**namespace, "spec": {"finalizers": []}}
                await self._kube.replace(NAMESPACES, ended, subresource="finalize")

    async def _nodes(self) -> None:
        nodes = await self._marked(NODES)
        names = {node["metadata"]["name"] for node in nodes}
        pods = (await self._kube.list(PODS)).items if names else []
        on_them = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") in names]
        await self._delete(PODS, on_them, grace_seconds=0)
        await self._delete(LEASES, await self._marked(LEASES, NODE_LEASES))
        await self._delete(NODES, nodes)

    async def _objects(self, resource: Resource) -> None:
        """Every object of a kind that goes."""
        if await self._kube.serves(resource):
            await self._delete(resource, (await self._kube.list(resource)).items)

    async def _let_go(self) -> None:
        """Pools and classes of definitions that were there before: nobody else would take our finalizers off."""
        for definition in (await self._kube.list(CRDS)).items:
            if definition["spec"]["group"] in ("karpenter.sh", "karpenter.k8s.aws"):
                resource = _resource_of(definition)
                for one in (await self._kube.list(resource)).items:
                    await self._unfinalize(resource, one, every=False)

    async def _marked(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        return [*(await self._kube.list(resource, namespace, label_selector=self._label)).items]

    async def _delete(
        self, resource: Resource, objects: Iterable[Object], *, grace_seconds: int | None = None
    ) -> None:
        for one in objects:
            metadata = one["metadata"]
            try:
                if resource not in (*CREATED, PODS):
                    await self._unfinalize(resource, one, every=True)
                await self._kube.delete(
                    resource,
                    metadata["name"],
                    metadata.get("namespace"),
                    uid=metadata["uid"],
                    grace_seconds=grace_seconds,
                )
            except (NotFound, Conflict):
                continue  # gone meanwhile; a namesake is not ours
            if resource.kind not in self.gone:
                self.gone.append(resource.kind)

    async def _unfinalize(self, resource: Resource, one: Object, *, every: bool) -> None:
        metadata = one["metadata"]
        before = metadata.get("finalizers") or []
        after = [] if every else [f for f in before if not f.startswith(OUR_FINALIZERS)]
        if before != after:
            patch = {"metadata": {"finalizers": after or None}}
            await self._kube.patch(resource, metadata["name"], patch, metadata.get("namespace"))


def _resource_of(definition: Object) -> Resource:
    spec = definition["spec"]
    version = next(one["name"] for one in spec["versions"] if one["served"])
    names = spec["names"]
    namespaced = spec["scope"] == "Namespaced"
    return Resource(spec["group"], version, names["plural"], names["kind"], namespaced)
