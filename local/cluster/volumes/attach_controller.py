"""Attaches volumes to the nodes of the pods that mount them, and detaches them when no pod there mounts them.

There is one VolumeAttachment for each volume and node. A volume that only one node may use at a time waits until it is
detached from the previous node; the waiting pod gets an Event with kube-controller-manager's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from local.cluster.control_plane.informers import Informers, Key, KeyIndex, Obj
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.controllers.pod_templates import phase
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store
from local.cluster.volumes.attaching import (
    ATTACHMENTS,
    STORAGE,
    Attachment,
    attachment_name,
    volumes_of,
)

RECHECK_SECONDS = 0.5
"""Time between two checks of a volume that is attached to another node."""
SHARED_MODES = frozenset({"ReadWriteMany", "ReadOnlyMany"})


def attached_node(attachment: Obj) -> list[str]:
    """The node of a VolumeAttachment, for an index."""
    return [attachment["spec"]["nodeName"]]


def attached_volume(attachment: Obj) -> list[str]:
    """The PersistentVolume of a VolumeAttachment, for an index; none for an inline volume."""
    name = (attachment["spec"].get("source") or {}).get("persistentVolumeName")
    return [name] if name else []


class AttachmentController(Controller):
    """Creates and deletes the VolumeAttachments of a node. Keys are nodes."""

    name, plural = "attachments", "nodes"

    def __init__(
        self, store: Store, informers: Informers, pods_by_node: KeyIndex, recorder: EventRecorder
    ) -> None:
        super().__init__(store)
        self._pods = pods_by_node
        self._record = partial(recorder.record, component="attachdetach-controller")
        self._by_node = KeyIndex(store, informers, ATTACHMENTS, attached_node, group=STORAGE)
        self._by_volume = KeyIndex(store, informers, ATTACHMENTS, attached_volume, group=STORAGE)

    def register(self, informers: Informers) -> None:
        """Watch pods that mount claims, and attachments that other programs delete."""
        informers.on("pods", self._on_pod)
        informers.on(ATTACHMENTS, self._on_attachment, group=STORAGE)

    def _on_pod(self, _event_type: str, obj: Obj, _old: Obj | None) -> None:
        node = obj["spec"].get("nodeName")
        if node and any(
            volume.get("persistentVolumeClaim") or volume.get("ephemeral")
            for volume in obj["spec"].get("volumes") or ()
        ):
            self.queue.add(Key("", node))

    def _on_attachment(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type == "DELETED":
            self.queue.add(Key("", obj["spec"]["nodeName"]))

    async def reconcile(self, key: Key) -> float | None:
        """Detach volumes that no pod on the node mounts, and attach volumes that one mounts."""
        mounted = {
            attachment: pod
            for pod in self._mounting(key.name)
            for attachment in volumes_of(self._store, pod)
        }
        names = {attachment_name(one, key.name) for one in mounted}
        for present in self._by_node.members(key.name):
            being_deleted = present["metadata"].get("deletionTimestamp")
            if present["metadata"]["name"] not in names and not being_deleted:
                self.delete(ATTACHMENTS, present, group=STORAGE)
        waits = [not self._attach(one, pod, key.name) for one, pod in mounted.items()]
        return RECHECK_SECONDS if any(waits) else None

    def _mounting(self, node: str) -> Iterator[Obj]:
        for pod in self._pods.members(node):
            if phase(pod) not in ("Succeeded", "Failed"):
                yield pod

    def _attach(self, attachment: Attachment, pod: Obj, node: str) -> bool:
        """Returns False when the volume is attached to another node."""
        name = attachment_name(attachment, node)
        if self._store.find(ATTACHMENTS, name, group=STORAGE) is not None:
            return True
        if self._attached_elsewhere(attachment.volume, node):
            text = (
                f'Multi-Attach error for volume "{attachment.volume}" Volume is already '
                "exclusively attached to one node and can't be attached to another"
            )
            self._record(pod, "FailedAttachVolume", text, event_type="Warning")
            return False
        self._create(attachment, name, node)
        text = f'AttachVolume.Attach succeeded for volume "{attachment.volume}"'
        self._record(pod, "SuccessfulAttachVolume", text)
        return True

    def _attached_elsewhere(self, volume: str, node: str) -> bool:
        found = self._store.find("persistentvolumes", volume)
        modes = (found["spec"].get("accessModes") or ()) if found else ()
        if SHARED_MODES.intersection(modes):
            return False
        return any(one["spec"]["nodeName"] != node for one in self._by_volume.members(volume))

    def _create(self, attachment: Attachment, name: str, node: str) -> None:
        body = {
            "metadata": {"name": name},
            "spec": {
                "attacher": attachment.driver,
                "nodeName": node,
                "source": {"persistentVolumeName": attachment.volume},
            },
        }
        created = self._store.create(ATTACHMENTS, body, group=STORAGE)
        self._by_node.add(created)
        self._by_volume.add(created)
        status = {"status": {"attached": True}}
        self._store.patch(ATTACHMENTS, name, status, group=STORAGE, subresource="status")
