"""Pods on ready nodes start, run, end by themselves when their manifest says so, and stop when deleted.

Every step has a due time in one heap. Due steps run in slices, so hundreds of pods that start together do not block the
event loop. A step reads the pod and its node again when it is due: pods of a node without a running kubelet do not
change, as in a real cluster. A pod starts when its volumes are attached.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass
from typing import Any, Literal

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.conditions import with_conditions
from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj, find, key_of
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.pod_templates import phase
from local.cluster.kubelet import resizes
from local.cluster.kubelet.fleet import BootTimes, Fleet
from local.cluster.kubelet.run_times import run_seconds
from local.cluster.settings import ClusterSettings
from local.cluster.storage.store import Store
from local.cluster.volumes.attaching import ATTACHMENTS, STORAGE, has_volumes
from shared.concurrency.clock import Clock, rfc3339
from shared.log import get_logger

log = get_logger(__name__)

POD_READY_TYPES = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")

Step = Literal["create", "start", "resize", "finish", "stop"]


@dataclass(frozen=True)
class PodTimes:
    """Seconds to start, and at most to stop."""

    start: float
    stop: float


class PodRunner:
    """Simulates all containers of the cluster."""

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        pods_by_node: KeyIndex,
        clock: Clock,
        times: PodTimes,
    ) -> None:
        self._store, self._fleet, self._pods = store, fleet, pods_by_node
        self._clock, self._times = clock, times
        self._due: list[tuple[float, int, Key, str, Step]] = []
        self._planned: dict[tuple[str, Step], None] = {}
        self._deferred: dict[str, dict[Key, None]] = {}
        """Node -> pods whose resize waits for room there."""
        self._sequence = itertools.count()
        self._addresses = itertools.count(2)
        self._wake = asyncio.Event()

    def register(self, informers: Informers) -> None:
        """Watch pods, and the objects that they wait for: ready nodes and attached volumes."""
        informers.on("pods", self._on_pod)
        informers.on("nodes", self._on_node)
        informers.on(ATTACHMENTS, self._on_attachment, group=STORAGE)

    def _on_node(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type != "DELETED" and self._fleet.serves(obj):
            for pod in self._pods.members(obj["metadata"]["name"]):
                self._plan_next(pod)

    def _on_attachment(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type != "DELETED":
            for pod in self._pods.members(obj["spec"]["nodeName"]):
                self._plan_next(pod)

    def _on_pod(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type != "DELETED" and obj["spec"].get("nodeName"):
            self._plan_next(obj)
        if event_type == "DELETED" or phase(obj) in resizes.ENDED:
            self._retry_resizes(obj["spec"].get("nodeName") or "")

    def _plan_next(self, pod: Obj) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds", 0)
            self._plan(pod, "stop", min(float(grace), self._times.stop))
        elif phase(pod) == "Pending" and not (pod.get("status") or {}).get("containerStatuses"):
            self._plan(pod, "create", 0.0)
        elif phase(pod) == "Pending":
            self._plan(pod, "start", self._times.start)
        elif phase(pod) == "Running":
            self._plan_resize(pod)
            seconds = run_seconds(pod)
            if seconds is not None:
                self._plan(pod, "finish", seconds)

    def _plan_resize(self, pod: Obj) -> None:
        if phase(pod) == "Running" and resizes.is_due(pod):
            self._plan(pod, "resize", 0.0)

    def _plan(self, pod: Obj, step: Step, seconds: float) -> None:
        uid = pod["metadata"]["uid"]
        if (uid, step) in self._planned:
            return
        self._planned[uid, step] = None
        entry = (self._clock.monotonic() + seconds, next(self._sequence), key_of(pod), uid, step)
        heapq.heappush(self._due, entry)
        if self._due[0] is entry:
            self._wake.set()

    async def run(self) -> None:
        """Run steps when they become due, until cancelled."""
        turn = TimeSlice()
        while True:
            pause = self._due[0][0] - self._clock.monotonic() if self._due else None
            if pause is None or pause > 0:
                self._wake.clear()
                await self._sleep(pause)
                continue
            _, _, key, uid, step = heapq.heappop(self._due)
            self._planned.pop((uid, step), None)
            self._carry_out(key, uid, step)
            await turn.share()

    async def _sleep(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    def _carry_out(self, key: Key, uid: str, step: Step) -> None:
        pod = find(self._store, "pods", key)
        if pod is None or pod["metadata"]["uid"] != uid or not self._kubelet_runs(pod):
            return
        try:
            if step == "stop":
                self._store.delete(
                    "pods", key.name, namespace=key.namespace, grace_seconds=0, uid=uid
                )
            elif pod["metadata"].get("deletionTimestamp"):
                return
            elif step == "create":
                self._write(pod, self._creating(pod))
            elif step == "start" and phase(pod) == "Pending":
                # Otherwise the event of its attachment plans this step again.
                if has_volumes(self._store, pod):
                    self._write(pod, self._running(pod))
            elif step == "resize" and phase(pod) == "Running":
                self._resize(pod)
            elif step == "finish" and phase(pod) == "Running":
                self._write(pod, self._succeeded(pod))
        except ApiError as error:
            log.info("pod step refused", pod=str(key), step=step, error=error.message)

    def _resize(self, pod: Obj) -> None:
        node = find(self._store, "nodes", Key("", pod["spec"]["nodeName"])) or {}
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        members = self._pods.members(pod["spec"]["nodeName"])
        now = rfc3339(self._clock.now())
        status = {**pod["status"], **resizes.status_of(pod, members, allocatable, now)}
        self._store.update("pods", {**pod, "status": status}, subresource="status")
        if resizes.is_deferred(status):
            self._deferred.setdefault(pod["spec"]["nodeName"], {})[key_of(pod)] = None
        else:
            self._retry_resizes(pod["spec"]["nodeName"])

    def _retry_resizes(self, node: str) -> None:
        """A pod has gone or became smaller: its room may be what others of the node wait for."""
        for key in self._deferred.pop(node, {}):
            pod = find(self._store, "pods", key)
            if pod is not None:
                self._plan_resize(pod)

    def _kubelet_runs(self, pod: Obj) -> bool:
        node = find(self._store, "nodes", Key("", pod["spec"].get("nodeName") or ""))
        return node is not None and self._fleet.serves(node)

    def _write(self, pod: Obj, status: dict[str, Any]) -> None:
        before = pod.get("status") or {}
        now = rfc3339(self._clock.now())
        status["conditions"] = with_conditions(before.get("conditions"), status["conditions"], now)
        changed = {**pod, "status": {**before, **status}}
        self._store.update("pods", changed, subresource="status")

    def _creating(self, pod: Obj) -> dict[str, Any]:
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        return {
            "phase": "Pending",
            "hostIP": self._host_address(pod),
            "startTime": rfc3339(self._clock.now()),
            "conditions": _conditions({"Ready": "False", "ContainersReady": "False"}),
            "containerStatuses": container_statuses(pod, waiting, ready=False),
        }

    def _running(self, pod: Obj) -> dict[str, Any]:
        state = {"running": {"startedAt": rfc3339(self._clock.now())}}
        address = self._pod_address(pod)
        return {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": _conditions({}),
            "containerStatuses": resizes.with_resources(
                pod, container_statuses(pod, state, ready=True)
            ),
        }

    def _succeeded(self, pod: Obj) -> dict[str, Any]:
        now = rfc3339(self._clock.now())
        ended = {"exitCode": 0, "reason": "Completed", "finishedAt": now}
        ended["startedAt"] = (pod.get("status") or {}).get("startTime", now)
        not_ready = {"Ready": "False", "ContainersReady": "False"}
        return {
            "phase": "Succeeded",
            "conditions": _conditions(not_ready, reason="PodCompleted"),
            "containerStatuses": container_statuses(pod, {"terminated": ended}, ready=False),
        }

    def _host_address(self, pod: Obj) -> str:
        node = find(self._store, "nodes", Key("", pod["spec"]["nodeName"])) or {}
        for address in (node.get("status") or {}).get("addresses") or ():
            if address["type"] == "InternalIP":
                return str(address["address"])
        return ""

    def _pod_address(self, pod: Obj) -> str:
        if pod["spec"].get("hostNetwork"):
            return self._host_address(pod)
        number = next(self._addresses) % (1 << 22)
        return f"10.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"


def kubelets(
    store: Store,
    pods_by_node: KeyIndex,
    recorder: EventRecorder,
    clock: Clock,
    settings: ClusterSettings,
) -> tuple[Fleet, PodRunner]:
    """The two parts of all kubelets: their nodes and their pods."""
    boot = BootTimes(
        settings.boot_seconds, settings.ready_seconds, settings.node_monitor_grace_seconds
    )
    fleet = Fleet(store, recorder, clock, settings.cluster_name, boot)
    times = PodTimes(settings.pod_start_seconds, settings.pod_stop_seconds)
    return fleet, PodRunner(store, fleet, pods_by_node, clock, times)


def container_statuses(pod: Obj, state: dict[str, Any], *, ready: bool) -> list[dict[str, Any]]:
    """One status per container, all in the same state."""
    started = "waiting" not in state
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": started and ready,
            "restartCount": 0,
            "state": state,
            "lastState": {},
        }
        for container in pod["spec"].get("containers") or ()
    ]


def _conditions(states: dict[str, str], reason: str = "") -> list[dict[str, Any]]:
    return [
        {
            "type": name,
            "status": states.get(name, "True"),
            **({"reason": reason} if reason and states.get(name) == "False" else {}),
        }
        for name in POD_READY_TYPES
    ]
