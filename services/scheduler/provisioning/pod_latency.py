"""How long pods waited for the first decision about them, and then to be bound and to run (POD-11, MET-04).

Whether the decision found a place or not counts alike. Times to be bound and to run (``karpenter_pods_provisioning_*``)
count from the first plan that placed the pod, as this process remembers it; a pod is forgotten when it runs, is over or
is gone. What may go wrong: the scheduler starts again; then it times the pods that it places itself, and the pods that
wait are decided on without being timed. A change of the mirror is missed; then the next check of all records finds it,
some seconds late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from shared.concurrency.clock import Clock
from shared.domain.records import PODS, decode_record
from shared.domain.workloads.pods import Pod
from shared.metrics import Metrics
from shared.metrics.exposition.text import block, labelled
from shared.metrics.pods import PLANNED_UNBOUND, PLANNED_UNSTARTED, UNDECIDED
from shared.redis.mirror import Change

MOST_PLACED = 20_000
"""Pods that are remembered; of more at once the later ones are not timed."""
RUNNING = "Running"
MOST_SEEN = 20_000
"""Pods that are timed at the same time; of more the others are not timed."""


@dataclass(slots=True)
class Placed:
    """One pod. ``at``: monotonic seconds of the first plan that placed it."""

    uid: str
    name: str
    namespace: str
    at: float
    bound: bool = False


@dataclass
class PodLatency:
    """``text`` runs in the threads of whoever scrapes, all else on the loop."""

    metrics: Metrics
    clock: Clock
    _placed: dict[str, Placed] = field(default_factory=dict)
    """By key in the mirror."""

    def place(self, pods: Iterable[Pod]) -> None:
        """A plan placed these pods."""
        now = self.clock.monotonic()
        for pod in pods:
            known = self._placed.get(pod.key)
            if known is not None and known.uid == pod.uid:
                continue
            if known is not None or len(self._placed) < MOST_PLACED:
                self._placed[pod.key] = Placed(pod.uid, pod.name, pod.namespace, now)

    def note(self, change: Change) -> None:
        """Follow one change of the mirror."""
        if change.kind != PODS or change.key not in self._placed:
            return
        body = change.body
        try:
            self._see(change.key, decode_record(PODS, body) if body is not None else None)
        except msgspec.ValidationError:  # of another version: the view reports it
            del self._placed[change.key]

    def check(self, pods: Mapping[str, Pod]) -> None:
        """Compare with all pods of the mirror, by key."""
        for key in list(self._placed):
            self._see(key, pods.get(key))

    def forget(self) -> None:
        """Another scheduler leads: its pods are not ours to time."""
        self._placed.clear()

    def text(self) -> str:
        """The gauges of pods that are not bound or do not run yet."""
        placed = list(self._placed.values())
        unbound = (one for one in placed if not one.bound)
        return block(PLANNED_UNBOUND, self._ages(unbound)) + block(
            PLANNED_UNSTARTED, self._ages(placed)
        )

    def _ages(self, placed: Iterable[Placed]) -> Iterator[tuple[str, float]]:
        now = self.clock.monotonic()
        for one in placed:
            yield labelled(PLANNED_UNBOUND.labels, (one.name, one.namespace)), round(now - one.at)

    def _see(self, key: str, pod: Pod | None) -> None:
        known = self._placed[key]
        if pod is None or pod.uid != known.uid or pod.is_terminal:
            del self._placed[key]
            return
        seconds = self.clock.monotonic() - known.at
        if pod.node_name and not known.bound:
            known.bound = True
            self.metrics.planned_bound_seconds.observe(seconds)
        if pod.phase == RUNNING:
            del self._placed[key]
            self.metrics.planned_startup_seconds.observe(seconds)


def placed_by(targets: Iterable[Iterable[str]], waiting: Iterable[Pod]) -> list[Pod]:
    """Those of ``waiting`` whose UIDs a plan gives to any of its ``targets``."""
    uids = {uid for target in targets for uid in target}
    return [pod for pod in waiting if pod.uid in uids]


def undecided_text(pods: Iterable[Pod], since: Mapping[str, float], *, now: float) -> str:
    """Those of ``pods`` that wait for the first decision. ``since``: by UID; it and ``now`` in monotonic seconds."""
    rows = (
        (labelled(UNDECIDED.labels, (pod.name, pod.namespace)), round(now - since[pod.uid]))
        for pod in pods
        if pod.uid in since and not pod.node_name
    )
    return block(UNDECIDED, rows)


@dataclass
class DecisionLatency:
    """Remembers pods by UID while they wait; times are monotonic seconds."""

    _seen: dict[str, float] = field(default_factory=dict)
    """When a pod without a decision was first seen."""
    _decided: set[str] = field(default_factory=set)

    def see(self, uid: str, *, now: float) -> None:
        """A pod waits; only the first call for it counts."""
        if uid not in self._decided and len(self._seen) < MOST_SEEN:
            self._seen.setdefault(uid, now)

    def decide(self, uids: Collection[str], *, waiting: Collection[str], now: float) -> list[float]:
        """Seconds that those of ``uids`` waited about which this is the first decision. Of pods that are not among
        ``waiting`` nothing is remembered."""
        took = [now - self._seen[uid] for uid in uids if uid in self._seen]
        still = set(waiting)
        self._decided = (self._decided | {*uids}) & still
        self._seen = {
            uid: at for uid, at in self._seen.items() if uid in still and uid not in self._decided
        }
        return took

    def undecided(self) -> dict[str, float]:
        """Since when each pod waits for its first decision."""
        return dict(self._seen)
