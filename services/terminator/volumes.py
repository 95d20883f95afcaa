"""Volumes that are still attached to a drained node (TRM-13).

A volume that is torn off its node may lose writes, and its pod waits six minutes elsewhere for the attach. Those of
pods that the drain passes by stay attached to the end and are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from shared.domain.pods import Pod
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import PVCS, VOLUME_ATTACHMENTS

Json = Mapping[str, Any]


def still_attached(attachments: Iterable[Json], node: str, staying: Set[str]) -> list[str]:
    """Names of the persistent volumes to wait for. ``staying``: those of pods that are not drained."""
    found = set()
    for raw in attachments:
        spec = raw.get("spec") or {}
        volume = (spec.get("source") or {}).get("persistentVolumeName")
        if spec.get("nodeName") == node and volume and volume not in staying:
            found.add(str(volume))
    return sorted(found)


async def volumes_of(kube: Kube, pods: Iterable[Pod]) -> set[str]:
    """Names of the persistent volumes that these pods use."""
    found = set()
    for pod in pods:
        for claim in pod.volume_claims:
            try:
                raw = await kube.get(PVCS, claim, pod.namespace)
            except NotFound:
                continue
            if volume := (raw.get("spec") or {}).get("volumeName"):
                found.add(str(volume))
    return found


async def attached(kube: Kube, node: str, passed_by: Iterable[Pod]) -> list[str]:
    """Volumes that this node still has to give back."""
    listed = (await kube.list(VOLUME_ATTACHMENTS)).items
    here = [raw for raw in listed if (raw.get("spec") or {}).get("nodeName") == node]
    if not here:
        return []
    return still_attached(here, node, await volumes_of(kube, passed_by))
