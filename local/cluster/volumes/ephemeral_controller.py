"""Creates the claim of each generic ephemeral volume. It is named after pod and volume, and the pod owns it."""

from __future__ import annotations

from typing import Any

from local.cluster.control_plane.informers import Informers, Key, Obj, controller_uids, find, key_of
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.controllers.pod_templates import is_active, owner_reference
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store

COMPONENT = "ephemeral_volume"


class EphemeralVolumeController(Controller):
    """Creates PersistentVolumeClaims for pods."""

    name, plural = "ephemeral-volumes", "pods"

    def __init__(self, store: Store, recorder: EventRecorder) -> None:
        super().__init__(store)
        self._recorder = recorder

    def register(self, informers: Informers) -> None:
        """Watch pods with ephemeral volumes."""
        informers.on(self.plural, self._on_pod)

    def _on_pod(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type == "ADDED" and _ephemeral(obj):
            self.queue.add(key_of(obj))

    async def reconcile(self, key: Key) -> float | None:
        """Create missing claims. A claim of the same name with another owner is not used, and the pod gets an Event."""
        pod = self.find(key)
        if pod is None or not is_active(pod):
            return None
        for volume in _ephemeral(pod):
            name = f"{key.name}-{volume['name']}"
            found = find(self._store, "persistentvolumeclaims", Key(key.namespace, name))
            if found is None:
                body = _claim(pod, name, volume["ephemeral"]["volumeClaimTemplate"])
                self._store.create("persistentvolumeclaims", body, namespace=key.namespace)
            elif pod["metadata"]["uid"] not in controller_uids(found):
                text = f'PVC "{key.namespace}/{name}" was not created for pod "{key.namespace}/{key.name}"'
                self._recorder.record(
                    pod, "EphemeralVolumeConflict", text, component=COMPONENT, event_type="Warning"
                )
        return None


def _ephemeral(pod: Obj) -> list[dict[str, Any]]:
    return [one for one in pod["spec"].get("volumes") or () if one.get("ephemeral")]


def _claim(pod: Obj, name: str, template: dict[str, Any]) -> Obj:
    metadata = template.get("metadata") or {}
    return {
        "metadata": {
            "name": name,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(pod)],
        },
        "spec": template["spec"],
    }
