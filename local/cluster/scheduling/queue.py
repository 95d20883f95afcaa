"""The scheduling queue: pods of one shape wait together, highest priority first, then oldest first.

If the first pod of a shape does not fit, no other pod of the shape does. The whole group is therefore parked until the
cluster changes, and at least for a back-off. Parked groups cost no work, so 10,000 pods that fit nowhere do not delay
the others.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

from local.cluster.control_plane.informers import Key
from local.cluster.scheduling.shapes import PodInfo, PodShape
from shared.concurrency.backoff import doubled

FIRST_BACKOFF_SECONDS = 0.05
LONGEST_BACKOFF_SECONDS = 1.0
"""Bounds of the time before a parked group is tried again (kube-scheduler: 1 to 10 seconds)."""


@dataclass(eq=False, slots=True)
class PodGroup:
    """Waiting pods of one shape."""

    shape: PodShape
    pods: dict[Key, PodInfo] = field(default_factory=dict)
    order: list[tuple[str, int, PodInfo]] = field(default_factory=list)
    unreported: dict[Key, PodInfo] = field(default_factory=dict)
    parked: bool = False
    retry_allowed: bool = False
    attempts: int = 0
    retry_at: float = 0.0
    message: str = ""
    reported_at: float = 0.0

    def first(self) -> PodInfo | None:
        """The oldest pod. Entries of removed or replaced pods are dropped on the way."""
        while self.order:
            pod = self.order[0][2]
            if self.pods.get(pod.key) is pod:
                return pod
            heapq.heappop(self.order)
        return None


class SchedulingQueue:
    """Groups of waiting pods: ready groups, which may be tried, and parked groups."""

    def __init__(self) -> None:
        self._groups: dict[bytes, PodGroup] = {}
        self._group_of: dict[Key, PodGroup] = {}
        self._ready: list[tuple[int, str, int, PodGroup]] = []
        self._parked: dict[bytes, PodGroup] = {}
        self._next_release = math.inf
        self._sequence = itertools.count()

    def add(self, pod: PodInfo) -> None:
        """Add a pod; a newer version of the same pod replaces the older one."""
        group = self._group_of.get(pod.key)
        if group is not None:
            if group.shape is pod.shape and group.pods[pod.key].uid == pod.uid:
                return
            self.remove(pod.key)
        group = self._groups.get(pod.shape.key)
        if group is None:
            group = self._groups[pod.shape.key] = PodGroup(pod.shape)
        group.pods[pod.key] = pod
        self._group_of[pod.key] = group
        heapq.heappush(group.order, (pod.created, next(self._sequence), pod))
        group.unreported[pod.key] = pod
        if not group.parked and group.first() is pod:
            self._make_ready(group)

    def renominate(self, pod: PodInfo) -> None:
        """Replace a waiting pod of which only the nomination changed. A parked pod stays parked until the cluster
        changes, because a nomination alone gives it no room."""
        before = self._group_of[pod.key]
        reported = pod.key not in before.unreported
        if before.parked and pod.shape.key not in self._groups:
            group = self._groups[pod.shape.key] = PodGroup(
                pod.shape, parked=True, retry_allowed=before.retry_allowed, attempts=before.attempts,
                retry_at=before.retry_at, message=before.message, reported_at=before.reported_at,
            )  # fmt: skip
            self._parked[pod.shape.key] = group
        self.add(pod)
        if reported:
            self._group_of[pod.key].unreported.pop(pod.key, None)

    def waiting(self, key: Key) -> PodInfo | None:
        """The waiting pod with this key, or None."""
        group = self._group_of.get(key)
        return None if group is None else group.pods[key]

    def remove(self, key: Key) -> PodInfo | None:
        """Remove a pod that is placed, gated or deleted."""
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        pod = group.pods.pop(key)
        group.unreported.pop(key, None)
        if not group.pods:
            del self._groups[group.shape.key]
            self._parked.pop(group.shape.key, None)
        return pod

    def next_group(self) -> PodGroup | None:
        """The group to try now; the caller returns it with ``requeue`` or ``park``."""
        while self._ready:
            group = heapq.heappop(self._ready)[3]
            if not group.parked and self._groups.get(group.shape.key) is group:
                return group
        return None

    def requeue(self, group: PodGroup) -> None:
        """Return a group whose first pod was placed; its next pod becomes ready."""
        group.attempts = 0
        if group.pods:
            self._make_ready(group)

    def park(self, group: PodGroup, message: str, now: float) -> None:
        """Return a group that fits on no node. A new ``message`` is reported for every pod of the group."""
        group.parked, group.retry_allowed = True, False
        self._parked[group.shape.key] = group
        group.retry_at = now + doubled(
            group.attempts, first=FIRST_BACKOFF_SECONDS, cap=LONGEST_BACKOFF_SECONDS
        )
        group.attempts += 1
        if message != group.message:
            group.message = message
            group.unreported = dict(group.pods)

    def allow_retries(self, *, only_pod_dependent: bool = False) -> None:
        """Allow parked groups another attempt after their back-off, because the cluster changed."""
        for group in self._parked.values():
            if not group.retry_allowed and (group.shape.depends_on_pods or not only_pod_dependent):
                group.retry_allowed = True
                self._next_release = min(self._next_release, group.retry_at)

    def release(self, now: float) -> float | None:
        """Unpark the groups that are due. Returns the seconds until the next group is due, or None."""
        if now >= self._next_release:
            self._next_release = math.inf
            for group in list(self._parked.values()):
                if not group.retry_allowed:
                    continue
                if group.retry_at <= now:
                    self._unpark(group)
                else:
                    self._next_release = min(self._next_release, group.retry_at)
        return None if self._next_release == math.inf else self._next_release - now

    def _unpark(self, group: PodGroup) -> None:
        del self._parked[group.shape.key]
        group.parked = group.retry_allowed = False
        self._make_ready(group)

    def unreported(self) -> list[PodGroup]:
        """Parked groups with pods whose condition does not show the result yet."""
        return [group for group in self._parked.values() if group.unreported]

    def _make_ready(self, group: PodGroup) -> None:
        first = group.first()
        if first is not None:
            entry = (-group.shape.priority, first.created, next(self._sequence), group)
            heapq.heappush(self._ready, entry)
