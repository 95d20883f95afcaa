"""Volumes that are still attached to a drained node (TRM-13).

A volume that is torn off its node may lose writes, and its pod waits six minutes elsewhere for the attachment. Volumes
of pods that the drain leaves alone stay attached to the end and are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from shared.domain.workloads.pods import Pod
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import PVCS

Json = Mapping[str, Any]


def on_node(attachments: Iterable[Json], node: str) -> list[Json]:
    """The attachments of one node: a volume on several nodes has one for each."""
    return [raw for raw in attachments if (raw.get("spec") or {}).get("nodeName") == node]


def still_attached(here: Iterable[Json], staying: Set[str]) -> list[str]:
    """Names of the persistent volumes to wait for. ``staying``: those of pods that are not drained."""
    sources = [(raw.get("spec") or {}).get("source") or {} for raw in here]
    names = {str(source.get("persistentVolumeName") or "") for source in sources}
    return sorted(names - staying - {""})


async def volumes_of(kube: Kube, pods: Iterable[Pod]) -> set[str]:
    """Names of the persistent volumes that these pods use."""
    found = set()
    for pod in pods:
        for name in pod.volume_claims:
            try:
                raw = await kube.get(PVCS, name, pod.namespace)
            except NotFound:
                continue
            if volume := (raw.get("spec") or {}).get("volumeName"):
                found.add(str(volume))
    return found
