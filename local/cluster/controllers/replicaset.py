"""ReplicaSets keep a number of pods alive.

Surplus pods go in the order of kube-controller-manager's ActivePodsWithRanks: not placed before placed, Pending before
Running, not ready before ready, lower ``controller.kubernetes.io/pod-deletion-cost`` first, more replicas on the same
node first, younger first. Adoption of orphaned pods is not modelled.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import Key, Obj
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.pod_templates import (
    is_active,
    is_ready,
    phase,
    pod_from_template,
    ready_for,
    suffix,
)
from local.cluster.controllers.workqueue import WorkloadController
from shared.concurrency.clock import parse_rfc3339

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def deletion_order(pods: list[Obj]) -> list[Obj]:
    """``pods`` sorted so that the first ones should be deleted first."""
    per_node = Counter(pod["spec"].get("nodeName") for pod in pods)

    def rank(pod: Obj) -> tuple[Any, ...]:
        node = pod["spec"].get("nodeName")
        return (
            bool(node),
            phase(pod) == "Running",
            is_ready(pod),
            _deletion_cost(pod),
            -per_node[node],
            -parse_rfc3339(pod["metadata"]["creationTimestamp"]),
        )

    return sorted(pods, key=rank)


def _deletion_cost(pod: Obj) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


class ReplicaSetController(WorkloadController):
    """Creates and deletes pods for ReplicaSets."""

    name, plural, group = "replicaset", "replicasets", "apps"
    kind, component = "ReplicaSet", "replicaset-controller"

    async def reconcile(self, key: Key) -> float | None:
        """Create or delete pods until there are ``spec.replicas``, then write the status."""
        replica_set = self.find(key)
        if replica_set is None:
            return None
        uid = replica_set["metadata"]["uid"]
        active = await self._active(uid)
        missing = replica_set["spec"].get("replicas", 1) - len(active)
        if missing and not replica_set["metadata"].get("deletionTimestamp"):
            if missing > 0:
                await self._create(replica_set, missing)
            else:
                await self._delete(replica_set, deletion_order(active)[:-missing])
            active = await self._active(uid)
        return self._write_status(key, active)

    async def _active(self, uid: str) -> list[Obj]:
        return [pod for pod in await self._pods.members_with_pauses(uid) if is_active(pod)]

    async def _create(self, replica_set: Obj, count: int) -> None:
        turn = TimeSlice()
        namespace = replica_set["metadata"]["namespace"]
        for _ in range(count):
            name = f"{replica_set['metadata']['name']}-{suffix(self._rng)}"
            pod = pod_from_template(replica_set, name)
            try:
                created = self._store.create("pods", pod, namespace=namespace)
            except ApiError as error:
                text = f"Error creating: {error.message}"
                self._record(replica_set, "FailedCreate", text, event_type="Warning")
                raise
            self._pods.add(created)
            self._record(replica_set, "SuccessfulCreate", f"Created pod: {name}")
            await turn.share()

    async def _delete(self, replica_set: Obj, pods: list[Obj]) -> None:
        turn = TimeSlice()
        for pod in pods:
            self.delete("pods", pod)
            text = f"Deleted pod: {pod['metadata']['name']}"
            self._record(replica_set, "SuccessfulDelete", text)
            await turn.share()

    def _write_status(self, key: Key, active: list[Obj]) -> float | None:
        replica_set = self.find(key)
        if replica_set is None:
            return None
        least = replica_set["spec"].get("minReadySeconds") or 0
        ready = [pod for pod in active if is_ready(pod)]
        now = self._clock.now()
        waits = [least - ready_for(pod, now) for pod in ready] if least else []
        status = {
            **(replica_set.get("status") or {}),
            "replicas": len(active),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": len(ready),
            "availableReplicas": len(ready) - sum(wait > 0 for wait in waits),
            "observedGeneration": replica_set["metadata"].get("generation", 1),
        }
        self.set_status(replica_set, status)
        return min((wait for wait in waits if wait > 0), default=None)
