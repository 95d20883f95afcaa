"""Creates volumes and binds claims to them: the work of an external provisioner and of the volume controller."""

from __future__ import annotations

from typing import Any

from local.cluster.control_plane.informers import Obj
from local.cluster.storage.store import Store
from local.cluster.volumes.places import ZONE, Labels, capacity_of, is_free, reaches, suits

CLASSES, CLASS_GROUP = "storageclasses", "storage.k8s.io"
NOT_PROVISIONED = "kubernetes.io/no-provisioner"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAITING = "WaitForFirstConsumer"


def class_of(store: Store, claim: Obj) -> Obj | None:
    """The claim's StorageClass, None when it names none or one that does not exist."""
    name = claim["spec"].get("storageClassName")
    return store.find(CLASSES, name, group=CLASS_GROUP) if name else None


def makes_volumes(storage_class: Obj) -> bool:
    """Whether volumes of the class are created on demand."""
    return bool(storage_class.get("provisioner") != NOT_PROVISIONED)


def waits(storage_class: Obj | None) -> bool:
    """Whether claims of the class are bound when their first pod is placed (WaitForFirstConsumer)."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == WAITING


def free_volume(
    store: Store, claim: Obj, labels: Labels | None = None, node: str = ""
) -> Obj | None:
    """The smallest existing volume that satisfies the claim; reachable from a node when ``labels`` are given."""
    found = [
        volume
        for volume in store.list("persistentvolumes")
        if is_free(volume)
        and suits(volume, claim)
        and (labels is None or reaches(volume)(labels, node))
    ]
    return min(found, key=lambda one: (capacity_of(one), one["metadata"]["name"]), default=None)


def provide(store: Store, claim: Obj, storage_class: Obj, labels: Labels, node: str = "") -> None:
    """Bind the claim to a free volume or to a new one in the zone that ``labels`` name. Raises ApiError."""
    volume = free_volume(store, claim, labels, node)
    if volume is None:
        volume = _provision(store, claim, storage_class, labels.get(ZONE))
    bind(store, claim, volume, {SELECTED_NODE: node} if node else {})


def bind(store: Store, claim: Obj, volume: Obj, notes: dict[str, str] | None = None) -> None:
    """Write the binding to claim and volume. Raises ApiError."""
    metadata, name = claim["metadata"], volume["metadata"]["name"]
    # The volume first, as kube-controller-manager does: then no second claim can take it.
    store.patch("persistentvolumes", name, {"spec": {"claimRef": _reference(claim)}})
    _set_phase(store, name, "Bound")
    body = {
        "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes", **(notes or {})}},
        "spec": {"volumeName": name},
    }
    space = metadata["namespace"]
    store.patch("persistentvolumeclaims", metadata["name"], body, namespace=space)
    status = {
        "phase": "Bound",
        "accessModes": volume["spec"].get("accessModes"),
        "capacity": volume["spec"].get("capacity"),
    }
    store.patch(
        "persistentvolumeclaims",
        metadata["name"],
        {"status": status},
        namespace=space,
        subresource="status",
    )


def release(store: Store, volume: Obj) -> None:
    """Delete the volume of a deleted claim if it was provisioned for it; otherwise keep it, as its policy requires."""
    name = volume["metadata"]["name"]
    made = PROVISIONED_BY in (volume["metadata"].get("annotations") or {})
    if made and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        store.delete("persistentvolumes", name)
    else:
        _set_phase(store, name, "Released")


def mark_available(store: Store, volume: Obj) -> None:
    """Set a volume's phase to Available."""
    if (volume.get("status") or {}).get("phase") in (None, "", "Pending"):
        _set_phase(store, volume["metadata"]["name"], "Available")


def _set_phase(store: Store, name: str, phase: str) -> None:
    body = {"status": {"phase": phase}}
    store.patch("persistentvolumes", name, body, subresource="status")


def _provision(store: Store, claim: Obj, storage_class: Obj, zone: str | None) -> Obj:
    uid, spec = claim["metadata"]["uid"], claim["spec"]
    driver = storage_class.get("provisioner", "")
    affinity: dict[str, Any] = {}
    if zone:
        place = [{"key": ZONE, "operator": "In", "values": [zone]}]
        affinity = {
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": place}]}}
        }
    requests = (spec.get("resources") or {}).get("requests") or {}
    volume = {
        "metadata": {"name": f"pvc-{uid}", "annotations": {PROVISIONED_BY: driver}},
        "spec": {
            "capacity": {"storage": requests.get("storage", "0")},
            "accessModes": spec.get("accessModes") or ["ReadWriteOnce"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "csi": {"driver": driver, "volumeHandle": f"vol-{uid.replace('-', '')[:17]}"},
            **affinity,
        },
    }
    return store.create("persistentvolumes", volume)


def _reference(claim: Obj) -> dict[str, str]:
    metadata = claim["metadata"]
    reference = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference}
