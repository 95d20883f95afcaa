"""StatefulSets keep pods with stable names and claims: ``web-0``, ``web-1`` and so on.

Pods start in order, each when the one before is ready, and stop in the opposite order (``OrderedReady``), or all at
once (``Parallel``). Outdated pods are replaced one at a time, from the highest ordinal down to ``partition``. Claims
remain when pods are deleted, which is the default; ``persistentVolumeClaimRetentionPolicy`` and ``maxUnavailable`` are
not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from local.cluster.control_plane.informers import Key, Obj, find
from local.cluster.controllers.pod_templates import (
    is_active,
    is_ready,
    phase,
    pod_from_template,
    ready_for,
    template_hash,
)
from local.cluster.controllers.workqueue import WorkloadController

REVISION_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


@dataclass(frozen=True)
class DesiredSet:
    """A StatefulSet's spec with its defaults."""

    first: int
    replicas: int
    parallel: bool
    partition: int
    on_delete: bool
    least_ready: float
    revision: str

    @staticmethod
    def of(stateful_set: Obj) -> DesiredSet:
        """The spec with the defaults filled in."""
        spec = stateful_set["spec"]
        strategy = spec.get("updateStrategy") or {}
        return DesiredSet(
            first=(spec.get("ordinals") or {}).get("start") or 0,
            replicas=spec.get("replicas", 1),
            parallel=spec.get("podManagementPolicy") == "Parallel",
            partition=(strategy.get("rollingUpdate") or {}).get("partition") or 0,
            on_delete=strategy.get("type") == "OnDelete",
            least_ready=spec.get("minReadySeconds") or 0,
            revision=f"{stateful_set['metadata']['name']}-{template_hash(spec['template'])}",
        )

    @property
    def ordinals(self) -> range:
        """The ordinals of the pods that must exist."""
        return range(self.first, self.first + self.replicas)


def ordinal_of(pod: Obj) -> int:
    """The number at the end of the pod's name; -1 for a name that this controller did not make."""
    number = pod["metadata"]["name"].rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


def revision_of(pod: Obj) -> str:
    """The revision of the template that the pod was created from."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION_LABEL, ""))


class StatefulSetController(WorkloadController):
    """Creates claims and pods for StatefulSets."""

    name, plural, group = "statefulset", "statefulsets", "apps"
    kind, component = "StatefulSet", "statefulset-controller"

    async def reconcile(self, key: Key) -> float | None:
        """One step: start a missing pod, otherwise stop a surplus one, otherwise replace an outdated one."""
        stateful_set = self.find(key)
        if stateful_set is None or stateful_set["metadata"].get("deletionTimestamp"):
            return None
        desired, pods = DesiredSet.of(stateful_set), self._members(stateful_set)
        for pod in pods.values():
            if phase(pod) in ("Succeeded", "Failed"):
                self._delete(stateful_set, pod)
        if self._start(stateful_set, desired, pods) and self._stop(stateful_set, desired, pods):
            self._replace(stateful_set, desired, pods)
        return self._write_status(key, desired)

    def _members(self, stateful_set: Obj) -> dict[int, Obj]:
        found = self._pods.members(stateful_set["metadata"]["uid"])
        return {ordinal_of(pod): pod for pod in sorted(found, key=ordinal_of)}

    def _start(self, stateful_set: Obj, desired: DesiredSet, pods: dict[int, Obj]) -> bool:
        """Returns False while a pod that others must wait for is not ready."""
        for ordinal in desired.ordinals:
            pod = pods.get(ordinal)
            if pod is None:
                self._create(stateful_set, desired, ordinal)
            if not desired.parallel and not (pod and self._available(pod, desired)):
                return False
        return True

    def _stop(self, stateful_set: Obj, desired: DesiredSet, pods: dict[int, Obj]) -> bool:
        """Returns False while a surplus pod exists."""
        surplus = [ordinal for ordinal in reversed(pods) if ordinal not in desired.ordinals]
        for ordinal in surplus:
            self._delete(stateful_set, pods[ordinal])
            if not desired.parallel:
                return False
        return not surplus

    def _replace(self, stateful_set: Obj, desired: DesiredSet, pods: dict[int, Obj]) -> None:
        if desired.on_delete:
            return
        for ordinal in reversed(desired.ordinals):
            pod = pods.get(ordinal)
            if pod is None or ordinal < desired.first + desired.partition:
                return
            if revision_of(pod) != desired.revision:
                self._delete(stateful_set, pod)
                return
            if not self._available(pod, desired):
                return

    def _available(self, pod: Obj, desired: DesiredSet) -> bool:
        ready = is_active(pod) and is_ready(pod)
        return ready and ready_for(pod, self._clock.now()) >= desired.least_ready

    def _create(self, stateful_set: Obj, desired: DesiredSet, ordinal: int) -> None:
        metadata, spec = stateful_set["metadata"], stateful_set["spec"]
        name, claims = f"{metadata['name']}-{ordinal}", dict[str, str]()
        for template in spec.get("volumeClaimTemplates") or ():
            volume = template["metadata"]["name"]
            claims[volume] = f"{volume}-{name}"
            self._create_claim(stateful_set, template, claims[volume])
        pod = _pod(stateful_set, name, claims)
        labels = {REVISION_LABEL: desired.revision, NAME_LABEL: name, INDEX_LABEL: str(ordinal)}
        pod["metadata"]["labels"] |= labels
        self._pods.add(self._store.create("pods", pod, namespace=metadata["namespace"]))
        text = f"create Pod {name} in StatefulSet {metadata['name']} successful"
        self._record(stateful_set, "SuccessfulCreate", text)

    def _create_claim(self, stateful_set: Obj, template: Obj, name: str) -> None:
        namespace = stateful_set["metadata"]["namespace"]
        if find(self._store, "persistentvolumeclaims", Key(namespace, name)) is not None:
            return
        selected = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
        labels = {**(template["metadata"].get("labels") or {}), **selected}
        annotations = dict(template["metadata"].get("annotations") or {})
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        body = {"metadata": metadata, "spec": template["spec"]}
        self._store.create("persistentvolumeclaims", body, namespace=namespace)

    def _delete(self, stateful_set: Obj, pod: Obj) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        self.delete("pods", pod)
        name, owner = pod["metadata"]["name"], stateful_set["metadata"]["name"]
        text = f"delete Pod {name} in StatefulSet {owner} successful"
        self._record(stateful_set, "SuccessfulDelete", text)

    def _write_status(self, key: Key, desired: DesiredSet) -> float | None:
        stateful_set = self.find(key)
        if stateful_set is None:
            return None
        before = stateful_set.get("status") or {}
        pods = list(self._members(stateful_set).values())
        ready = [pod for pod in pods if is_active(pod) and is_ready(pod)]
        available = sum(self._available(pod, desired) for pod in ready)
        updated = sum(revision_of(pod) == desired.revision for pod in pods)
        whole = updated == len(ready) == len(pods) == desired.replicas
        status: dict[str, Any] = {
            **before,
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": available,
            "updatedReplicas": updated,
            "currentReplicas": len(pods) if whole else len(pods) - updated,
            "currentRevision": desired.revision
            if whole
            else before.get("currentRevision", desired.revision),
            "updateRevision": desired.revision,
            "observedGeneration": stateful_set["metadata"].get("generation", 1),
        }
        self.set_status(stateful_set, status)
        return 1.0 if desired.least_ready and available < len(ready) else None


def _pod(stateful_set: Obj, name: str, claims: dict[str, str]) -> Obj:
    """The pod with its own host name and claims; a claim replaces a volume of the same name."""
    metadata, spec = stateful_set["metadata"], stateful_set["spec"]
    pod = pod_from_template(stateful_set, name)
    pod["metadata"]["generateName"] = f"{metadata['name']}-"
    kept = [one for one in pod["spec"].get("volumes") or () if one["name"] not in claims]
    own = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        for volume, claim in claims.items()
    ]
    pod["spec"] |= {"hostname": name, "volumes": [*kept, *own]}
    if service := spec.get("serviceName"):
        pod["spec"]["subdomain"] = service
    return pod
