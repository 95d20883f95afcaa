"""The scheduling queue: pods of one shape wait together, highest priority first, then oldest first.

If the first pod of a shape does not fit, none of its equals does: the whole group is parked until
the cluster changes, with a back-off, and costs nothing meanwhile. That is why 10,000 pods that fit
nowhere do not slow the others.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

from local.cluster.control_plane.informers import Key
from local.cluster.scheduling.shapes import PodInfo, PodShape

FIRST_BACKOFF = 0.05
LONGEST_BACKOFF = 1.0
"""Seconds a parked group waits at least before it is tried again (real: 1 to 10)."""


@dataclass(eq=False, slots=True)
class PodGroup:
    """Waiting pods of one shape."""

    shape: PodShape
    pods: dict[Key, PodInfo] = field(default_factory=dict)
    order: list[tuple[str, int, PodInfo]] = field(default_factory=list)
    unreported: dict[Key, PodInfo] = field(default_factory=dict)
    parked: bool = False
    stirred: bool = False
    attempts: int = 0
    retry_at: float = 0.0
    message: str = ""
    reported_at: float = 0.0

    def first(self) -> PodInfo | None:
        """The pod whose turn it is."""
        while self.order:
            pod = self.order[0][2]
            if self.pods.get(pod.key) is pod:
                return pod
            heapq.heappop(self.order)
        return None


class SchedulingQueue:
    """Groups of waiting pods; those that may be tried, and those that are parked."""

    def __init__(self) -> None:
        self._groups: dict[bytes, PodGroup] = {}
        self._group_of: dict[Key, PodGroup] = {}
        self._ready: list[tuple[int, str, int, PodGroup]] = []
        self._parked: dict[bytes, PodGroup] = {}
        self._next_release = math.inf
        self._sequence = itertools.count()

    def __len__(self) -> int:
        return len(self._group_of)

    def add(self, pod: PodInfo) -> None:
        """Let a pod wait; a newer version of the same pod replaces the older one."""
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
        """A waiting pod that is new in nothing but its nomination, which is no reason to try it: a parked one stays so
        until the cluster changes."""
        before = self._group_of[pod.key]
        told = pod.key not in before.unreported
        if before.parked and pod.shape.key not in self._groups:
            group = self._groups[pod.shape.key] = PodGroup(
                pod.shape, parked=True, stirred=before.stirred, attempts=before.attempts,
                retry_at=before.retry_at, message=before.message, reported_at=before.reported_at,
            )  # fmt: skip
            self._parked[pod.shape.key] = group
        self.add(pod)
        if told:
            self._group_of[pod.key].unreported.pop(pod.key, None)

    def waiting(self, key: Key) -> PodInfo | None:
        """The waiting pod of that name."""
        group = self._group_of.get(key)
        return None if group is None else group.pods[key]

    def remove(self, key: Key) -> PodInfo | None:
        """Take a pod out: it is placed, gated or gone."""
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
        """The group to try now; give it back with ``requeue`` or ``park``."""
        while self._ready:
            group = heapq.heappop(self._ready)[3]
            if not group.parked and self._groups.get(group.shape.key) is group:
                return group
        return None

    def requeue(self, group: PodGroup) -> None:
        """The group's first pod was placed: its next one stands in line."""
        group.attempts = 0
        if group.pods:
            self._make_ready(group)

    def park(self, group: PodGroup, message: str, now: float) -> None:
        """No node takes the group; every pod whose user has not been told so is to be reported."""
        group.parked, group.stirred = True, False
        self._parked[group.shape.key] = group
        backoff = min(FIRST_BACKOFF * 2**group.attempts, LONGEST_BACKOFF)
        group.retry_at = now + backoff
        group.attempts = min(group.attempts + 1, 10)
        if message != group.message:
            group.message = message
            group.unreported = dict(group.pods)

    def stir(self, *, only_pod_dependent: bool = False) -> None:
        """Something changed: parked groups are due again when their back-off is over."""
        for group in self._parked.values():
            if not group.stirred and (group.shape.depends_on_pods or not only_pod_dependent):
                group.stirred = True
                self._next_release = min(self._next_release, group.retry_at)

    def release(self, now: float) -> float | None:
        """Unpark what is due; the seconds until the next one is, or None."""
        if now >= self._next_release:
            self._next_release = math.inf
            for group in list(self._parked.values()):
                if not group.stirred:
                    continue
                if group.retry_at <= now:
                    self._unpark(group)
                else:
                    self._next_release = min(self._next_release, group.retry_at)
        return None if self._next_release == math.inf else self._next_release - now

    def _unpark(self, group: PodGroup) -> None:
        del self._parked[group.shape.key]
        group.parked = group.stirred = False
        self._make_ready(group)

    def unreported(self) -> list[PodGroup]:
        """Parked groups with pods whose condition does not say so yet."""
        return [group for group in self._parked.values() if group.unreported]

    def _make_ready(self, group: PodGroup) -> None:
        first = group.first()
        if first is not None:
            entry = (-group.shape.priority, first.created, next(self._sequence), group)
            heapq.heappush(self._ready, entry)
