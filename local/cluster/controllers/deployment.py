"""Deployments keep one ReplicaSet per pod template and move replicas from old ones to the new one.

maxSurge and maxUnavailable are computed as in kube-controller-manager's ``rolling.go`` (percentages: surge rounds up,
unavailable rounds down, and both zero means one unavailable). The status allows ``kubectl rollout status`` to end. A
paused Deployment is only scaled. kubectl implements rollback: it restores the old template.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from local.cluster.control_plane.conditions import find_condition, with_conditions
from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj, find, key_of
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.controllers.pod_templates import HASH_LABEL, owner_reference, template_hash
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store
from shared.concurrency.clock import Clock, parse_rfc3339, rfc3339

REVISION = "deployment.kubernetes.io/revision"
DEFAULT_PROGRESS_DEADLINE = 600
SCALING = "ScalingReplicaSet"


def share_of(value: int | str | None, total: int, *, default: str, round_up: bool) -> int:
    """An int-or-percent of ``total`` (intstr.GetScaledValueFromIntOrPercent)."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    exact = int(value.rstrip("%")) * total / 100
    return math.ceil(exact) if round_up else math.floor(exact)


@dataclass(frozen=True)
class Limits:
    """Bounds of the number of pods during a rollout."""

    replicas: int
    surge: int
    unavailable: int


def limits_of(deployment: Obj) -> Limits:
    """Read spec.strategy with its defaults (25 % each)."""
    spec = deployment["spec"]
    replicas = spec.get("replicas", 1)
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = share_of(rolling.get("maxSurge"), replicas, default="25%", round_up=True)
    unavailable = share_of(rolling.get("maxUnavailable"), replicas, default="25%", round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(replicas, surge, min(unavailable, replicas))


def _replicas(replica_set: Obj) -> int:
    return int(replica_set["spec"].get("replicas", 1))


def _available(replica_set: Obj) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def rolling_sizes(new: Obj, old: list[Obj], limits: Limits) -> dict[str, int]:
    """The next size of each ReplicaSet that changes, by name."""
    total = _replicas(new) + sum(_replicas(rs) for rs in old)
    desired = _replicas(new)
    if desired > limits.replicas:
        desired = limits.replicas
    elif desired < limits.replicas:
        desired += max(min(limits.replicas + limits.surge - total, limits.replicas - desired), 0)
    sizes = {new["metadata"]["name"]: desired} if desired != _replicas(new) else {}
    if not sizes:
        sizes = _shrunk_old(new, old, limits)
    return sizes


def _shrunk_old(new: Obj, old: list[Obj], limits: Limits) -> dict[str, int]:
    least = limits.replicas - limits.unavailable
    total = _replicas(new) + sum(_replicas(rs) for rs in old)
    spare = total - least - (_replicas(new) - _available(new))
    if spare <= 0:
        return {}
    sizes = {rs["metadata"]["name"]: _replicas(rs) for rs in old}
    for rs in old:  # removing unhealthy replicas does not reduce availability
        name, unhealthy = rs["metadata"]["name"], _replicas(rs) - _available(rs)
        step = min(spare, max(unhealthy, 0))
        sizes[name] -= step
        spare -= step
    available = _available(new) + sum(min(_available(rs), _replicas(rs)) for rs in old)
    spare = min(spare, available - least)
    for rs in old:
        step = max(min(spare, sizes[rs["metadata"]["name"]]), 0)
        sizes[rs["metadata"]["name"]] -= step
        spare -= step
    return {
        rs["metadata"]["name"]: sizes[rs["metadata"]["name"]]
        for rs in old
        if sizes[rs["metadata"]["name"]] != _replicas(rs)
    }


class DeploymentController(Controller):
    """Scales the ReplicaSets of Deployments."""

    name, plural, group = "deployment", "deployments", "apps"

    def __init__(
        self,
        store: Store,
        replica_sets: KeyIndex,
        pods: KeyIndex,
        recorder: EventRecorder,
        clock: Clock,
    ) -> None:
        super().__init__(store)
        self._replica_sets, self._pods, self._clock = replica_sets, pods, clock
        self._record = partial(recorder.record, component="deployment-controller")

    def register(self, informers: Informers) -> None:
        """Watch Deployments and the ReplicaSets they own."""
        informers.on(self.plural, self.on_own, group=self.group)
        informers.on("replicasets", self.on_owned("Deployment"), group=self.group)

    async def reconcile(self, key: Key) -> float | None:
        """One step of the rollout; the events of ReplicaSets cause the next one."""
        deployment = self.find(key)
        if deployment is None or deployment["metadata"].get("deletionTimestamp"):
            return None
        owned = self._replica_sets.members(deployment["metadata"]["uid"])
        digest = template_hash(deployment["spec"]["template"])
        new = next((rs for rs in owned if _hash(rs) == digest), None)
        old = [rs for rs in owned if _hash(rs) != digest]
        paused = bool(deployment["spec"].get("paused"))
        if new is None and not paused:
            new = self._create_replica_set(deployment, digest, old)
        if new is not None:
            self._note_revision(deployment, new, old)
            for name, size in self._sizes(deployment, new, old).items():
                self._resize(deployment, Key(key.namespace, name), size)
            self._delete_history(deployment, old)
        self._write_status(key, digest)
        return None

    def _sizes(self, deployment: Obj, new: Obj, old: list[Obj]) -> dict[str, int]:
        limits = limits_of(deployment)
        active = [rs for rs in old if _replicas(rs) > 0]
        if not active:
            desired = limits.replicas
            return {new["metadata"]["name"]: desired} if _replicas(new) != desired else {}
        if deployment["spec"].get("paused"):
            return {}
        if (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            return {rs["metadata"]["name"]: 0 for rs in active}
        return rolling_sizes(new, sorted(active, key=_age), limits)

    def _create_replica_set(self, deployment: Obj, digest: str, old: list[Obj]) -> Obj | None:
        spec, metadata = deployment["spec"], deployment["metadata"]
        recreate = (spec.get("strategy") or {}).get("type") == "Recreate"
        busy = [rs for rs in old if _replicas(rs) or self._pods.members(rs["metadata"]["uid"])]
        if recreate and busy:
            for rs in busy:
                self._resize(deployment, key_of(rs), 0)
            self.queue.add_after(key_of(deployment), 0.1)
            return None
        limits = limits_of(deployment)
        room = limits.replicas + limits.surge - sum(_replicas(rs) for rs in old)
        created = self._store.create(
            "replicasets",
            _replica_set(deployment, digest, max(min(limits.replicas, room), 0)),
            group=self.group,
            namespace=metadata["namespace"],
        )
        self._replica_sets.add(created)
        text = f"Scaled up replica set {created['metadata']['name']} from 0 to {_replicas(created)}"
        self._record(deployment, SCALING, text)
        return created

    def _note_revision(self, deployment: Obj, new: Obj, old: list[Obj]) -> None:
        newest = max((_revision(rs) for rs in old), default=0)
        revision = str(max(_revision(new), newest + 1))
        for plural, obj in (("replicasets", new), ("deployments", deployment)):
            if (obj["metadata"].get("annotations") or {}).get(REVISION) != revision:
                body = {"metadata": {"annotations": {REVISION: revision}}}
                self._store.patch(
                    plural,
                    obj["metadata"]["name"],
                    body,
                    group=self.group,
                    namespace=obj["metadata"]["namespace"],
                )

    def _resize(self, deployment: Obj, key: Key, size: int) -> None:
        before = find(self._store, "replicasets", key, group=self.group)
        if before is None or _replicas(before) == size:
            return
        body = {"spec": {"replicas": size}}
        self._store.patch("replicasets", key.name, body, group=self.group, namespace=key.namespace)
        direction = "up" if size > _replicas(before) else "down"
        text = f"Scaled {direction} replica set {key.name} from {_replicas(before)} to {size}"
        self._record(deployment, SCALING, text)

    def _delete_history(self, deployment: Obj, old: list[Obj]) -> None:
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        idle = [rs for rs in old if _replicas(rs) == 0 and not _status(rs).get("replicas")]
        surplus = len(idle) - limit
        for rs in sorted(idle, key=_revision)[: max(surplus, 0)]:
            self.delete("replicasets", rs, group=self.group)

    def _write_status(self, key: Key, digest: str) -> None:
        deployment = self.find(key)
        if deployment is not None:
            owned = self._replica_sets.members(deployment["metadata"]["uid"])
            self.set_status(deployment, self._status(deployment, owned, digest))

    def _status(self, deployment: Obj, owned: list[Obj], digest: str) -> dict[str, Any]:
        sums = {
            field: sum(_status(rs).get(field, 0) for rs in owned)
            for field in ("replicas", "readyReplicas", "availableReplicas")
        }
        limits = limits_of(deployment)
        new = [rs for rs in owned if _hash(rs) == digest]
        status = {
            **(deployment.get("status") or {}),
            **sums,
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "updatedReplicas": sum(_status(rs).get("replicas", 0) for rs in new),
            "unavailableReplicas": max(
                sum(_replicas(rs) for rs in owned) - sums["availableReplicas"], 0
            ),
        }
        conditions = [
            _availability(sums["availableReplicas"] >= limits.replicas - limits.unavailable),
            self._progress(deployment, status, limits, new),
        ]
        now = rfc3339(self._clock.now())
        before = (deployment.get("status") or {}).get("conditions")
        status["conditions"] = with_conditions(before, conditions, now)
        return status

    def _progress(
        self, deployment: Obj, status: dict[str, Any], limits: Limits, new: list[Obj]
    ) -> dict[str, Any]:
        kept = find_condition(deployment, "Progressing") or {}
        name = new[0]["metadata"]["name"] if new else ""
        counts = [status[f] for f in ("updatedReplicas", "replicas", "availableReplicas")]
        now = self._clock.now()
        if new and counts == [limits.replicas] * 3:
            reason, text = "NewReplicaSetAvailable", "has successfully progressed."
        elif counts != [
            (deployment.get("status") or {}).get(f, 0)
            for f in ("updatedReplicas", "replicas", "availableReplicas")
        ]:
            reason, text = "ReplicaSetUpdated", "is progressing."
        else:
            reason, text = str(kept.get("reason") or "NewReplicaSetCreated"), "is progressing."
            deadline = deployment["spec"].get("progressDeadlineSeconds", DEFAULT_PROGRESS_DEADLINE)
            since = parse_rfc3339(kept["lastUpdateTime"]) if kept else now
            late = now - since >= deadline and reason != "NewReplicaSetAvailable"
            if late or reason == "ProgressDeadlineExceeded":
                reason, text = "ProgressDeadlineExceeded", "has timed out progressing."
            elif reason != "NewReplicaSetAvailable":
                self.queue.add_after(key_of(deployment), max(since + deadline - now, 1.0))
        condition = {
            "type": "Progressing",
            "status": "False" if reason == "ProgressDeadlineExceeded" else "True",
            "reason": reason,
            "message": f'ReplicaSet "{name}" {text}',
        }
        same = all(kept.get(field) == value for field, value in condition.items())
        return {**condition, "lastUpdateTime": kept["lastUpdateTime"] if same else rfc3339(now)}


def _availability(enough: bool) -> dict[str, Any]:
    condition = {"type": "Available", "status": "True" if enough else "False"}
    if enough:
        text = "Deployment has minimum availability."
        return {**condition, "reason": "MinimumReplicasAvailable", "message": text}
    text = "Deployment does not have minimum availability."
    return {**condition, "reason": "MinimumReplicasUnavailable", "message": text}


def _replica_set(deployment: Obj, digest: str, replicas: int) -> Obj:
    spec, metadata = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
    match_labels = {**(spec["selector"].get("matchLabels") or {}), HASH_LABEL: digest}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "ownerReferences": [owner_reference(deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.get("minReadySeconds", 0),
            "selector": {**spec["selector"], "matchLabels": match_labels},
            "template": {
                **template,
                "metadata": {**(template.get("metadata") or {}), "labels": labels},
            },
        },
    }


def _hash(replica_set: Obj) -> str:
    return str((replica_set["metadata"].get("labels") or {}).get(HASH_LABEL, ""))


def _revision(replica_set: Obj) -> int:
    text = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _status(replica_set: Obj) -> dict[str, Any]:
    return replica_set.get("status") or {}


def _age(replica_set: Obj) -> str:
    return str(replica_set["metadata"]["creationTimestamp"])
