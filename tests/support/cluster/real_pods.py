"""Pods of a hand-written mirror, on the API server too: the scheduler reads them there before it buys for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Any

from shared.domain.workloads.pods import Pod
from shared.errors import AlreadyExists, NotFound
from shared.kube.client import Kube
from shared.kube.resources import NAMESPACES, PODS
from tests.support.cluster.chosen_uids import CHOSEN_UID

AT_ONCE = 16


async def store_pods(kube: Kube, pods: Iterable[Pod]) -> None:
    """Create them under their UIDs; one that was stored here before is replaced when it has another node now. A pod
    that the test itself created stays."""
    pods = list(pods)
    for namespace in {pod.namespace for pod in pods} - {"default"}:
        with contextlib.suppress(AlreadyExists):
            await kube.create(NAMESPACES, {"metadata": {"name": namespace}})
    gate = asyncio.Semaphore(AT_ONCE)

    async def store(pod: Pod) -> None:
        async with gate:
            await _store(kube, pod)

    await asyncio.gather(*map(store, pods))


async def _store(kube: Kube, pod: Pod) -> None:
    body = _raw(pod)
    try:
        await kube.create(PODS, body, pod.namespace)
        return
    except AlreadyExists:
        stored = await kube.get(PODS, pod.name, pod.namespace)
    ours = CHOSEN_UID in (stored["metadata"].get("annotations") or {})
    if not ours or stored["spec"].get("nodeName", "") == pod.node_name:
        return
    with contextlib.suppress(NotFound):
        await kube.delete(PODS, pod.name, pod.namespace, grace_seconds=0)
    await kube.create(PODS, body, pod.namespace)


def _raw(pod: Pod) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app"}]}
    if pod.node_name:
        spec["nodeName"] = pod.node_name
    return {"metadata": {"name": pod.name, "annotations": {CHOSEN_UID: pod.uid}}, "spec": spec}
