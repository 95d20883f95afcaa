"""The scheduler's loop: events deliver pods without a node, and the store receives the bindings.

One turn works for at most ``SLICE_SECONDS``: it tries groups of equal pods, then reports pods that fit nowhere
(condition PodScheduled=False, Event FailedScheduling), then yields. Every object is read again from the store when it
is used, so late events do no harm. When the store refuses a binding (the pod was deleted or bound by another program),
the pod leaves the queue; its next event adds it again.
"""

from __future__ import annotations

import asyncio
import random

from local.cluster.api.errors import ApiError
from local.cluster.builtin.resources import DEVICE_GROUP
from local.cluster.control_plane.conditions import find_condition, with_conditions
from local.cluster.control_plane.informers import Informers, Key, Obj, find, key_of
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.scheduling.devices import PodDevices
from local.cluster.scheduling.filters import evaluate
from local.cluster.scheduling.preemption import Budgets, find_candidate, refusal_to_preempt
from local.cluster.scheduling.queue import PodGroup, SchedulingQueue
from local.cluster.scheduling.scores import choose
from local.cluster.scheduling.shapes import PodInfo
from local.cluster.scheduling.state import ClusterState, NodeState
from local.cluster.storage.store import Store
from local.cluster.volumes.scheduling import PodVolumes
from shared.concurrency.clock import Clock, rfc3339
from shared.kube.transport.pacing import TokenBucket
from shared.log import get_logger

log = get_logger(__name__)

NAME = "default-scheduler"
SLICE_SECONDS = 0.01
"""Time of work between two turns of the event loop."""
REWRITE_SECONDS = 3.0
"""Shortest time between two changes of the message on a group's pods: only the text differs."""
REWRITES_PER_SECOND = 100
"""Rate of these changes over all pods: with a thousand pods each is updated every 10 s, kube-scheduler's longest
back-off.
"""
ALL_NODES_BELOW = 100
"""Below this number all nodes are scored; above it only a share (kube-scheduler's percentageOfNodesToScore)."""


def enough_nodes(nodes: int) -> int:
    """Number of fitting nodes to find before scoring (numFeasibleNodesToFind)."""
    if nodes < ALL_NODES_BELOW:
        return nodes
    share = max(50 - nodes // 125, 5)
    return max(nodes * share // 100, ALL_NODES_BELOW)


class Scheduler:
    """Binds pods to nodes."""

    def __init__(
        self,
        store: Store,
        recorder: EventRecorder,
        clock: Clock,
        rng: random.Random,
        strategy: str = "least-allocated",
        writes_per_second: float = 0.0,
    ) -> None:
        self._store, self._recorder, self._clock = store, recorder, clock
        self._rng, self._strategy = rng, strategy
        self._volumes = PodVolumes(store)
        self._devices = PodDevices(store)
        self._state = ClusterState(self._volumes, self._devices)
        self._queue = SchedulingQueue()
        self._wake = asyncio.Event()
        self._start = 0
        rate = writes_per_second
        self._bucket = TokenBucket(rate, max(1, round(2 * rate)), clock) if rate else None
        self._free_at = float("-inf")
        """The monotonic time of the next write, by ``writes_per_second``."""

    def register(self, informers: Informers) -> None:
        """Watch pods, nodes, namespaces, volumes and devices."""
        informers.on("namespaces", self._on_namespace)
        informers.on("nodes", self._on_node)
        informers.on("pods", self._on_pod)
        for plural in ("persistentvolumeclaims", "persistentvolumes"):
            informers.on(plural, self._on_storage)
        informers.on("storageclasses", self._on_storage, group="storage.k8s.io")
        for plural in ("deviceclasses", "resourceclaims", "resourceslices"):
            informers.on(plural, self._on_storage, group=DEVICE_GROUP)

    async def run(self) -> None:
        """Schedule until cancelled."""
        while True:
            pause = self._turn()
            if pause == 0:
                await asyncio.sleep(0)
                continue
            self._wake.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _turn(self) -> float | None:
        """Work for one slice. Returns the time to sleep (0: more work is ready, None: until woken)."""
        until = self._clock.monotonic() + SLICE_SECONDS
        while (now := self._clock.monotonic()) < until:
            if now < self._free_at:
                return self._free_at - now
            # Groups are released only here, because a binding above may have changed what a parked group needs.
            soonest = self._queue.release(self._clock.monotonic())
            group = self._queue.next_group()
            if group is None:
                return self._report(until, soonest)
            self._try(group)
        return 0.0

    def _try(self, group: PodGroup) -> None:
        pod = group.first()
        if pod is None:
            return
        node = self._nominated(pod)
        if node is None:
            nodes = self._candidates()
            evaluation = evaluate(pod, self._state, nodes, enough=enough_nodes(len(nodes)))
            if not evaluation.feasible:
                why = refusal_to_preempt(pod, self._state)
                if why or not self._preempt(pod):
                    message = evaluation.message(why if pod.shape.nominated else "")
                    self._queue.park(group, message, self._clock.monotonic())
                    if pod.shape.nominated and not why:
                        self._remove_nominations(list(group.pods))
                else:
                    self._queue.requeue(group)
                return
            node = self._choose(pod, evaluation.feasible)
        self._bind(pod, node)
        self._queue.requeue(group)

    def _preempt(self, pod: PodInfo) -> bool:
        """Make room for the pod on the cheapest node, and nominate the pod there. False when nothing helps."""
        budgets = Budgets(self._store.list("poddisruptionbudgets", group="policy"))
        names = pod.shape.node_names
        nodes = [one for one in self._candidates() if names is None or one.name in names]
        chosen = find_candidate(pod, self._state, nodes, budgets)
        if chosen is None or not self._nominate(pod, chosen.node.name):
            return False
        for victim in chosen.victims:
            self._evict(victim, pod, chosen.node.name)
        return True

    def _remove_nominations(self, keys: list[Key]) -> None:
        """Remove the nominations of pods that fit nowhere even with preemption, as kube-scheduler does."""
        body = {"status": {"nominatedNodeName": None}}
        for key in keys:
            self._patch_status(key, body, "nomination not ended")

    def _nominate(self, pod: PodInfo, node: str) -> bool:
        """Set the pod's nominated node. This comes before the evictions, so that no other pod takes the room."""
        key, body = pod.key, {"status": {"nominatedNodeName": node}}
        written = self._patch_status(key, body, "nomination refused", node=node)
        if written is None:
            return False
        self._dequeue(key)
        self._on_waiting_pod(key, written)
        return True

    def _evict(self, victim: PodInfo, pod: PodInfo, node: str) -> None:
        found = find(self._store, "pods", victim.key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        text = f"{NAME}: preempting to accommodate a higher priority pod"
        condition = {"type": "DisruptionTarget", "status": "True", "message": text}
        condition["reason"] = "PreemptionByScheduler"
        # The condition first: a pod without a grace period is gone after the deletion.
        self._set_condition(found, condition)
        self._store.delete("pods", victim.key.name, namespace=victim.key.namespace)
        text = f"Preempted by pod {pod.uid} on node {node}"
        self._recorder.record(found, "Preempted", text, component=NAME)

    def _nominated(self, pod: PodInfo) -> NodeState | None:
        """The nominated node when the pod fits there; it is tried before all others, whoever set it (KEP-5278)."""
        node = self._state.nodes.get(pod.shape.nominated or "")
        if node is None or not node.exists:
            return None
        found = evaluate(pod, self._state, [node], enough=1).feasible
        return found[0] if found else None

    def _choose(self, pod: PodInfo, feasible: list[NodeState]) -> NodeState:
        return choose(pod.shape, feasible, self._state, self._strategy, self._rng)

    def _candidates(self) -> list[NodeState]:
        nodes = self._state.existing()
        if len(nodes) < ALL_NODES_BELOW:
            return nodes
        self._start = (self._start + 1) % len(nodes)
        return nodes[self._start :] + nodes[: self._start]

    def _spend_write(self) -> None:
        if self._bucket is not None:
            self._free_at = self._clock.monotonic() + self._bucket.reserve()

    def _bind(self, pod: PodInfo, node: NodeState) -> None:
        self._dequeue(pod.key)
        self._spend_write()
        try:
            # Claims first: a pod whose claims are not bound would start without them.
            self._volumes.bind(pod.shape, node)
            self._devices.bind(pod, node)
            self._store.bind(pod.key.name, pod.key.namespace, node.name)
        except ApiError as error:
            log.info("binding refused", pod=str(pod.key), node=node.name, error=error.message)
            return
        self._state.place(pod, node.name)
        self._queue.allow_retries(only_pod_dependent=True)
        bound = find(self._store, "pods", pod.key)
        if bound is not None:
            text = f"Successfully assigned {pod.key.namespace}/{pod.key.name} to {node.name}"
            self._recorder.record(bound, "Scheduled", text, component=NAME)

    def _report(self, until: float, soonest: float | None) -> float | None:
        """Write the result onto parked pods. Returns 0 when the slice ended before all were written."""
        for group in self._queue.unreported():
            now = self._clock.monotonic()
            pause = max(REWRITE_SECONDS, len(group.pods) / REWRITES_PER_SECOND)
            due = group.reported_at + pause
            for key in list(group.unreported):
                if (now := self._clock.monotonic()) < self._free_at:
                    return self._free_at - now
                if now >= until:
                    return 0.0
                if self._report_pod(key, group.message, rewrite=now >= due):
                    group.unreported.pop(key, None)
            if not group.unreported:
                group.reported_at = now
            else:
                wait = max(due - now, 0.05)
                soonest = wait if soonest is None else min(soonest, wait)
        return soonest

    def _report_pod(self, key: Key, message: str, *, rewrite: bool) -> bool:
        """Returns True when the pod's condition has ``message`` now; a change of only the text may wait."""
        pod = find(self._store, "pods", key)
        if pod is None:
            return True
        before = find_condition(pod, "PodScheduled")
        if before is not None and before.get("reason") == "Unschedulable":
            if before.get("message") == message:
                return True
            if not rewrite:
                return False
        self._spend_write()
        self._set_unscheduled(pod, "Unschedulable", message)
        self._recorder.record(
            pod, "FailedScheduling", message, component=NAME, event_type="Warning"
        )
        return True

    def _set_unscheduled(self, pod: Obj, reason: str, message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False"}
        self._set_condition(pod, {**condition, "reason": reason, "message": message})

    def _set_condition(self, pod: Obj, condition: dict[str, str]) -> None:
        now = rfc3339(self._clock.now())
        conditions = with_conditions((pod.get("status") or {}).get("conditions"), [condition], now)
        body = {"status": {"conditions": conditions}}
        self._patch_status(key_of(pod), body, "condition not written")

    def _patch_status(self, key: Key, body: Obj, failure: str, **context: str) -> Obj | None:
        """The pod with the patched status. A refusal is logged as ``failure`` and returns None."""
        try:
            return self._store.patch(
                "pods", key.name, body, namespace=key.namespace, subresource="status"
            )
        except ApiError as error:
            log.info(failure, pod=str(key), **context, error=error.message)
            return None

    def _on_namespace(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        labels = None if event_type == "DELETED" else obj["metadata"].get("labels") or {}
        self._state.set_namespace(obj["metadata"]["name"], labels)

    def _on_node(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        name = obj["metadata"]["name"]
        current = find(self._store, "nodes", Key("", name))
        if current is None:
            self._state.remove_node(name)
        elif not self._state.set_node(current):
            return
        self._allow_retries()

    def _on_storage(self, _event_type: str, _obj: Obj, _old: Obj | None) -> None:
        self._allow_retries()

    def _on_pod(self, _event_type: str, obj: Obj, _old: Obj | None) -> None:
        key = key_of(obj)
        pod = find(self._store, "pods", key)
        finished = pod is not None and pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if pod is None or finished:
            self._dequeue(key)
            if self._state.remove_pod(key):
                self._allow_retries()
        elif pod["spec"].get("nodeName"):
            self._dequeue(key)
            if self._state.place(self._state.info(pod), pod["spec"]["nodeName"]):
                self._allow_retries(only_pod_dependent=True)
        else:
            self._on_waiting_pod(key, pod)

    def _on_waiting_pod(self, key: Key, pod: Obj) -> None:
        if self._state.remove_pod(key):
            self._allow_retries()  # an earlier pod of the same name was placed and deleted
        ours = pod["spec"].get("schedulerName", NAME) == NAME
        if not ours or pod["metadata"].get("deletionTimestamp"):
            self._dequeue(key)
            return
        if pod["spec"].get("schedulingGates"):
            self._dequeue(key)
            self._report_gated(pod)
            return
        info = self._state.info(pod)
        before = self._queue.waiting(key)
        if before is not None and info.is_renominated(before):
            self._state.drop_nomination(before)
            self._queue.renominate(info)
            if before.shape.nominated:
                self._allow_retries()
        else:
            self._dequeue_other_shape(info)
            self._queue.add(info)
        self._state.nominate(info)
        self._wake.set()

    def _report_gated(self, pod: Obj) -> None:
        condition = find_condition(pod, "PodScheduled")
        if condition is None or condition.get("reason") != "SchedulingGated":
            text = "Scheduling is blocked due to non-empty scheduling gates"
            self._set_unscheduled(pod, "SchedulingGated", text)

    def _dequeue_other_shape(self, info: PodInfo) -> None:
        waiting = self._queue.waiting(info.key)
        if waiting is not None and waiting.shape is not info.shape:
            self._dequeue(info.key)

    def _dequeue(self, key: Key) -> None:
        pod = self._queue.remove(key)
        if pod is not None:
            self._state.drop_nomination(pod)
            if pod.shape.nominated:
                self._allow_retries()

    def _allow_retries(self, *, only_pod_dependent: bool = False) -> None:
        self._queue.allow_retries(only_pod_dependent=only_pod_dependent)
        self._wake.set()
