"""Does anybody need a planned machine? Asked of the API server right before the machine is written.

The mirror is as of a moment ago, and the watcher may not have noticed yet that it misses changes. One read of a pod per
machine shows that the machine is not for ghosts. What may go wrong: the pods that were asked about went and others
stayed; those are planned for again with the next round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.api.pods import parse_pod
from shared.domain.pods import Pod
from shared.errors import InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.resources import PODS

MOST_ASKED = 5
"""Pods of one machine, spread over all of them; the first that needs it ends the asking."""


@dataclass
class Need:
    """Reads pods."""

    kube: Kube

    async def is_proven(self, uids: Sequence[str], pods: Mapping[str, Pod]) -> bool:
        """Whether one of these pods is as it was planned for. ``pods`` by UID, as planned. Raises TransientError."""
        for uid in spread(uids, MOST_ASKED):
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
