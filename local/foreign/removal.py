"""Removes the objects of a stack from an existing cluster.

All objects are found by ``LABEL``, so a second removal completes an interrupted one. The services must have stopped.
Their work (machines and finalizers) is completed here, because the instances end with the emulator.

Raises ConfigurationError when the cluster does not answer, for example because it was deleted.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from local.foreign.kubeconfig import read_context
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
"""Kinds of the objects that the services create, no matter who installed the definition."""
OUR_FINALIZERS = ("karpenter.", "dovetail.")
NODE_LEASES = "kube-node-lease"
NAMESPACE_SECONDS, POLL_SECONDS = 10.0, 0.25


async def remove(
    kubeconfig: Path, stack: str = "", *, namespace_seconds: float = NAMESPACE_SECONDS
) -> list[str]:
    """Remove the objects of the stack with this id, or of every stack when ``stack`` is empty.

    ``namespace_seconds``: time that a namespace may take to end. Returns the kinds of the removed objects. Raises
    ConfigurationError.
    """
    context = read_context(kubeconfig)
    label = f"{LABEL}={stack}" if stack else LABEL
    async with connected(kubeconfig, context) as kube:
        removal = _Removal(kube, label, namespace_seconds)
        if not await removal.anything():
            return []
        await removal.run()
        return removal.gone


@dataclass(frozen=True)
class _Removal:
    kube: Kube
    label: str
    namespace_seconds: float
    gone: list[str] = field(default_factory=list)

    async def anything(self) -> bool:
        """Whether a stack's label exists here. Without one, no machine of the cluster is removed."""
        for resource in (*CREATED, NODES):
            if await self._labelled(resource):
                return True
        return False

    async def run(self) -> None:
        await self._nodes()
        definitions = await self._labelled(CRDS)
        for resource in MADE_BY_SERVICES:
            await self._objects(resource)
        for definition in definitions:
            await self._objects(_resource_of(definition))
        await self._remove_our_finalizers()
        for resource in reversed(CREATED):
            await self._delete(resource, await self._labelled(resource))
        await self._end_namespaces()

    async def _end_namespaces(self) -> None:
        """Wait until the namespaces are deleted, or finalize them: a bare API server has no namespace controller, and
        the next start would find them in deletion.
        """
        for _ in range(math.ceil(self.namespace_seconds / POLL_SECONDS)):
            left = await self._labelled(NAMESPACES)
            if not left:
                return
            await asyncio.sleep(POLL_SECONDS)
        for namespace in left:
            # Without conditions no namespace controller has processed it.
            if not (namespace.get("status") or {}).get("conditions"):
                ended = {**namespace, "spec": {"finalizers": []}}
                await self.kube.replace(NAMESPACES, ended, subresource="finalize")

    async def _nodes(self) -> None:
        nodes = await self._labelled(NODES)
        names = {node["metadata"]["name"] for node in nodes}
        pods = (await self.kube.list(PODS)).items if names else []
        on_them = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") in names]
        await self._delete(PODS, on_them, grace_seconds=0)
        await self._delete(LEASES, await self._labelled(LEASES, NODE_LEASES))
        await self._delete(NODES, nodes)

    async def _objects(self, resource: Resource) -> None:
        """Delete every object of a kind whose definition is removed."""
        if await self.kube.serves(resource):
            await self._delete(resource, (await self.kube.list(resource)).items)

    async def _remove_our_finalizers(self) -> None:
        """Remove our finalizers from pools and classes whose definitions remain, because no controller will remove them
        later.
        """
        for definition in (await self.kube.list(CRDS)).items:
            if definition["spec"]["group"] in ("karpenter.sh", "karpenter.k8s.aws"):
                resource = _resource_of(definition)
                for one in (await self.kube.list(resource)).items:
                    await self._unfinalize(resource, one, every=False)

    async def _labelled(self, resource: Resource, namespace: str | None = None) -> list[Object]:
        return [*(await self.kube.list(resource, namespace, label_selector=self.label)).items]

    async def _delete(
        self, resource: Resource, objects: Iterable[Object], *, grace_seconds: int | None = None
    ) -> None:
        for one in objects:
            metadata = one["metadata"]
            try:
                if resource not in (*CREATED, PODS):
                    await self._unfinalize(resource, one, every=True)
                await self.kube.delete(
                    resource,
                    metadata["name"],
                    metadata.get("namespace"),
                    uid=metadata["uid"],
                    grace_seconds=grace_seconds,
                )
            except (NotFound, Conflict):
                continue  # already deleted; a new object of the same name is not ours
            if resource.kind not in self.gone:
                self.gone.append(resource.kind)

    async def _unfinalize(self, resource: Resource, one: Object, *, every: bool) -> None:
        metadata = one["metadata"]
        before = metadata.get("finalizers") or []
        after = [] if every else [f for f in before if not f.startswith(OUR_FINALIZERS)]
        if before != after:
            patch = {"metadata": {"finalizers": after or None}}
            await self.kube.patch(resource, metadata["name"], patch, metadata.get("namespace"))


def _resource_of(definition: Object) -> Resource:
    spec = definition["spec"]
    version = next(one["name"] for one in spec["versions"] if one["served"])
    names = spec["names"]
    namespaced = spec["scope"] == "Namespaced"
    return Resource(spec["group"], version, names["plural"], names["kind"], namespaced)
