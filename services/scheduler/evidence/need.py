"""Does anybody need a planned machine? Read from the API server right before the machine is written.

The mirror is as of a moment ago, and the watcher may not have noticed yet that it misses changes. One read of a pod per
machine, or for many machines one list of the names of all pods without a node, proves that the pods still exist. What
may go wrong: the pods that were read are gone and others of the machine still wait; the next round plans for those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass

from shared.api.core.pods import parse_pod
from shared.domain.workloads.pods import Pod
from shared.errors import InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.resources import PODS

MOST_READ = 5
"""Pods of one machine, spread over all of them; after the first that needs it none is read."""
MANY_MACHINES = 20
"""From so many on a list is cheaper than a read for each: 500 pods in one answer of metadata."""
WITHOUT_NODE = "spec.nodeName=,status.phase=Pending"


@dataclass
class Need:
    """Reads pods."""

    kube: Kube

    async def listed(self, machines: int) -> frozenset[str]:
        """UIDs of all pods that wait for a node, when a list is cheaper for so many machines; else none. Raises as
        ``Kube.pages``."""
        if machines < MANY_MACHINES:
            return frozenset()
        found: set[str] = set()
        pages = self.kube.pages(PODS, field_selector=WITHOUT_NODE, metadata_only=True)
        async with aclosing(pages):
            async for page in pages:
                metadata = [item["metadata"] for item in page.items]
                found |= {one["uid"] for one in metadata if not one.get("deletionTimestamp")}
        return frozenset(found)

    async def is_proven(
        self, uids: Sequence[str], pods: Mapping[str, Pod], listed: Set[str] = frozenset()
    ) -> bool:
        """Whether one of these pods is as it was planned for. ``pods`` by UID, as planned; ``listed``: UIDs that are
        known to wait. Raises TransientError."""
        if not listed.isdisjoint(uids):
            return True
        for uid in spread(uids, MOST_READ):
            pod = pods.get(uid)
            if pod is not None and await self._needs(pod):
                return True
        return False

    async def _needs(self, pod: Pod) -> bool:
        try:
            raw = await self.kube.get(PODS, pod.name, pod.namespace)
            return still_needs(pod, parse_pod(raw))
        except (NotFound, InvalidObject):
            return False


def still_needs(planned: Pod, stored: Pod) -> bool:
    """The same pod, in the same place as when it was planned for, and still to run."""
    same = stored.uid == planned.uid and stored.node_name == planned.node_name
    return same and not stored.is_terminal and (planned.terminating or not stored.terminating)


def spread(items: Sequence[str], most: int) -> list[str]:
    """At most so many, from all over the sequence."""
    if len(items) <= most:
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]
