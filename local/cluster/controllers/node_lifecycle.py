"""Taints that follow a node's state, eviction by NoExecute taints, and deletion of pods whose node no longer exists.

Parts of kube-controller-manager: node lifecycle (a cordon becomes the taint ``node.kubernetes.io/unschedulable``; a
node that is not Ready gets ``not-ready`` or ``unreachable``), taint eviction (tolerationSeconds count from
``timeAdded``), and pod garbage collection. Admission lets pods tolerate not-ready and unreachable for 300 s.
"""

from __future__ import annotations

from typing import Any

from local.cluster.control_plane.conditions import find_condition
from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj, key_of
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.workqueue import Controller
from local.cluster.scheduling.selectors import tolerates
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, parse_rfc3339, rfc3339

CORDON = "node.kubernetes.io/unschedulable"
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
OWN_TAINTS = (CORDON, NOT_READY, UNREACHABLE)
DEFAULT_TOLERATION_SECONDS = 300.0
"""The tolerationSeconds that admission (DefaultTolerationSeconds) gives every pod for not-ready and unreachable."""

Taint = dict[str, Any]


def required_taints(node: Obj) -> list[tuple[str, str]]:
    """(key, effect) of the taints that the node's state requires."""
    taints = [(CORDON, "NoSchedule")] if (node.get("spec") or {}).get("unschedulable") else []
    ready = find_condition(node, "Ready")
    status = ready.get("status") if ready else "False"
    if status == "Unknown":
        taints += [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]
    elif status != "True":
        taints.append((NOT_READY, "NoSchedule"))
        if ready is not None and _was_ready(node):
            taints.append((NOT_READY, "NoExecute"))
    return taints


def _was_ready(node: Obj) -> bool:
    """Whether the node has been Ready. A booting node is not ready either, but no pod has to leave it."""
    ready = find_condition(node, "Ready") or {}
    return ready.get("reason") != "KubeletNotReady"


def adjusted_taints(node: Obj, now: str) -> list[Taint]:
    """The node's taints with this controller's taints updated; others are not changed."""
    taints: list[Taint] = list((node.get("spec") or {}).get("taints") or ())
    required = required_taints(node)
    kept = [t for t in taints if t["key"] not in OWN_TAINTS or (t["key"], t["effect"]) in required]
    present = {(t["key"], t["effect"]) for t in kept}
    added = [
        {"key": k, "effect": e, "timeAdded": now} for k, e in required if (k, e) not in present
    ]
    return kept + added


def eviction_delay(pod: Obj, taints: list[Taint], now: float) -> float | None:
    """Seconds until NoExecute taints evict the pod; None when they never do."""
    tolerations = pod["spec"].get("tolerations") or ()
    delays: list[float] = []
    for taint in taints:
        if taint.get("effect") != "NoExecute":
            continue
        matching = [t for t in tolerations if tolerates(t, taint)]
        limits = [float(t["tolerationSeconds"]) for t in matching if "tolerationSeconds" in t]
        if matching and len(limits) < len(matching):
            continue
        by_default = DEFAULT_TOLERATION_SECONDS if taint["key"] in (NOT_READY, UNREACHABLE) else 0.0
        limit = min(limits) if limits else by_default
        since = parse_rfc3339(taint["timeAdded"]) if taint.get("timeAdded") else now
        delays.append(max(since + limit - now, 0.0))
    return min(delays, default=None)


class NodeLifecycleController(Controller):
    """Updates taints, evicts pods, and deletes the pods of deleted nodes."""

    name, plural = "node-lifecycle", "nodes"

    def __init__(self, store: Store, pods_by_node: KeyIndex, clock: Clock) -> None:
        super().__init__(store)
        self._pods, self._clock = pods_by_node, clock

    def register(self, informers: Informers) -> None:
        """Watch nodes, and pods when they are bound."""
        informers.on("nodes", self._on_node)
        informers.on("pods", self._on_pod)

    def _on_node(self, _event_type: str, obj: Obj, _old: Obj | None) -> None:
        self.queue.add(key_of(obj))

    def _on_pod(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        node_name = obj["spec"].get("nodeName")
        if event_type == "DELETED" or not node_name:
            return
        node = self.find(Key("", node_name))
        taints = (node.get("spec") or {}).get("taints") or () if node else ()
        if node is None or any(taint["effect"] == "NoExecute" for taint in taints):
            self.queue.add(Key("", node_name))

    async def reconcile(self, key: Key) -> float | None:
        """Update one node's taints and pods to match its state."""
        node = self.find(key)
        if node is None:
            await self._collect_orphans(key.name)
            return None
        taints = adjusted_taints(node, rfc3339(self._clock.now()))
        if taints != ((node.get("spec") or {}).get("taints") or []):
            self._store.patch("nodes", key.name, {"spec": {"taints": taints}})
        return await self._evict(key.name, taints)

    async def _collect_orphans(self, node: str) -> None:
        turn = TimeSlice()
        for pod in self._pods.members(node):
            self.delete("pods", pod, grace_seconds=0)
            await turn.share()

    async def _evict(self, node: str, taints: list[Taint]) -> float | None:
        if not any(taint["effect"] == "NoExecute" for taint in taints):
            return None
        turn, soonest, now = TimeSlice(), None, self._clock.now()
        for pod in self._pods.members(node):
            delay = eviction_delay(pod, taints, now)
            if delay is None or pod["metadata"].get("deletionTimestamp"):
                continue
            if delay <= 0:
                self.delete("pods", pod)
            else:
                soonest = delay if soonest is None else min(soonest, delay)
            await turn.share()
        return soonest
