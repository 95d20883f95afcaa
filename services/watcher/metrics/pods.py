"""Serves one series for each pod that there is, and counts how long pods take to be bound and to run (MET-04).

A pod is remembered by its UID, without what its containers are. Only the leading watcher counts and serves. What the
first list shows counts as no change: a watcher that starts again times no pod twice. What may go wrong: nobody leads
for a while; pods that were bound or ran meanwhile are not timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from services.watcher.conversion import Kind
from services.watcher.metrics.pod_series import (
    PENDING,
    Json,
    PodSeries,
    place_text,
    series_of,
    state_text,
)
from shared.concurrency.clock import Clock
from shared.domain.nodes import Node
from shared.domain.records import PODS
from shared.metrics import Metrics
from shared.metrics.exposition.text import block, labelled
from shared.metrics.pods import STATE, UNBOUND, UNSTARTED

NOWHERE = place_text(None)


class PodGauges:
    """``note`` runs on the loop, ``text`` in the threads of whoever scrapes."""

    def __init__(self, metrics: Metrics, clock: Clock, leads: Callable[[], bool]) -> None:
        self._metrics, self._clock, self._leads = metrics, clock, leads
        self._pods: dict[str, PodSeries] = {}
        """By UID."""
        self._places: dict[str, str] = {}
        """Node name -> the labels that its pods have from it."""

    def note(self, kind: Kind, raw: Json, *, first: bool) -> None:
        """An object was seen; only pods are noted. ``first``: it comes from the first list."""
        uid = str(raw["metadata"].get("uid") or "")
        if kind.name != PODS or not uid:
            return
        before, now = self._pods.get(uid), series_of(raw)
        ran = before.started if before is not None else first and now.phase != PENDING
        started = ran or now.is_over or now.ready_at is not None
        self._pods[uid] = now._replace(started=started)
        if self._leads() and not first:
            self._time(before, now, ran=ran)

    def forget(self, kind: Kind, uid: str) -> None:
        """An object is gone."""
        if kind.name == PODS:
            self._pods.pop(uid, None)

    def note_node(self, name: str, node: Node | None) -> None:
        """A node as it is now; None: it is gone, or cannot be read."""
        if node is None:
            self._places.pop(name, None)
        else:
            self._places[name] = place_text(node)

    def text(self) -> str:
        if not self._leads():
            return ""
        # The copies are made in one go: ``note`` may run meanwhile.
        pods, places = list(self._pods.values()), dict(self._places)
        states = ((state_text(pod, places.get(pod.node, NOWHERE)), 1.0) for pod in pods)
        unstarted = (pod for pod in pods if not pod.started)
        unbound = (pod for pod in pods if pod.phase == PENDING and pod.bound_at is None)
        return "".join((
            block(STATE, states),
            block(UNSTARTED, self._ages(unstarted)),
            block(UNBOUND, self._ages(unbound)),
        ))  # fmt: skip

    def _ages(self, pods: Iterable[PodSeries]) -> Iterator[tuple[str, float]]:
        now = self._clock.now()
        for pod in pods:
            if pod.created_at is not None:
                text = labelled(UNBOUND.labels, (pod.name, pod.namespace))
                yield text, round(max(0.0, now - pod.created_at))

    def _time(self, before: PodSeries | None, now: PodSeries, *, ran: bool) -> None:
        if now.created_at is None:
            return
        if now.bound_at is not None and (before is None or before.bound_at is None):
            self._metrics.pod_bound_seconds.observe(max(0.0, now.bound_at - now.created_at))
        if now.ready_at is not None and not ran and not now.is_over:
            self._metrics.pod_startup_seconds.observe(max(0.0, now.ready_at - now.created_at))
