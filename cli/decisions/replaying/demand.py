"""What the users of a cluster wanted in a recorded period: pods that came, and pods that went. Pure.

A pod that a disruption moved was evicted and made anew by its controller. Another course of events moves others, so
both are left out: that a pod goes means nothing when its workload has a new one within two minutes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from shared.domain.records import PODS, decode_record
from shared.domain.workloads.pods import Pod
from shared.runtime.archive.reading import Seen

REPLACED_SECONDS = 120.0


class Arrival(NamedTuple):
    """A pod comes at ``at`` (seconds since the epoch), and waits."""

    at: float
    pod: Pod


class Removal(NamedTuple):
    """One pod of this workload goes."""

    at: float
    workload: str


Wish = Arrival | Removal


def workload_of(pod: Pod) -> str:
    """Pods of one controller are alike; a pod without one is on its own."""
    return pod.owner.uid if pod.owner else pod.uid


def is_wanted(pod: Pod) -> bool:
    """Whether users want it to run somewhere: daemons and mirror pods belong to their node."""
    return not (pod.is_daemon or pod.is_mirror or pod.is_terminal or pod.terminating)


def as_new(pod: Pod, at: float, uid: str) -> Pod:
    """The same pod before anything is done for it."""
    return replace(
        pod,
        uid=uid,
        name=f"{pod.name[:60]}-{uid[-12:]}" if uid != pod.uid else pod.name,
        created_at=at,
        node_name="",
        nominated_node="",
        phase="Pending",
        unschedulable=True,
        started_at=0.0,
        terminate_at=0.0,
    )


@dataclass
class _Counting:
    alive: dict[str, tuple[str, str]]
    """Key -> (UID, workload) of the pods that are wanted."""
    wishes: list[Wish] = field(default_factory=list)
    gone: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Workload -> places of its removals among ``wishes``, oldest first."""

    def see(self, at: float, key: str, pod: Pod | None) -> None:
        before = self.alive.get(key)
        wanted = pod is not None and is_wanted(pod)
        if before is not None and (not wanted or (pod and pod.uid != before[0])):
            del self.alive[key]
            self.gone[before[1]].append(len(self.wishes))
            self.wishes.append(Removal(at, before[1]))
            before = None
        if pod is not None and wanted and before is None:
            self.alive[key] = pod.uid, workload_of(pod)
            if not self._replaces(at, workload_of(pod)):
                self.wishes.append(Arrival(at, as_new(pod, at, pod.uid)))

    def _replaces(self, at: float, workload: str) -> bool:
        """Forgets the removal that this arrival makes good, if there is one."""
        places = self.gone[workload]
        while places:
            place = places.pop(0)
            if at - self.wishes[place].at <= REPLACED_SECONDS:
                self.wishes[place] = Removal(float("inf"), workload)
                return True
        return False


def demand(first: Iterable[Pod], changes: Iterable[Seen]) -> list[Wish]:
    """In order. ``first``: the pods at the beginning; ``changes``: of the mirror, in order."""
    alive = {pod.key: (pod.uid, workload_of(pod)) for pod in first if is_wanted(pod)}
    counting = _Counting(alive)
    for at, kind, key, body in changes:
        if kind == PODS:
            counting.see(at, key, None if body is None else decode_record(kind, body))
    return [wish for wish in counting.wishes if wish.at != float("inf")]
