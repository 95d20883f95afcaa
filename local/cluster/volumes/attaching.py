"""The volumes that a node must attach for its pods, and its limits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from local.cluster.control_plane.informers import Obj, key_of
from local.cluster.scheduling.shapes import claim_names
from local.cluster.storage.store import Store
from local.cluster.volumes.binding import class_of

STORAGE = "storage.k8s.io"
ATTACHMENTS = "volumeattachments"


class Attachment(NamedTuple):
    """A volume by its driver and name; a volume that does not exist yet is named by its claim."""

    driver: str
    volume: str


def attachments_of(store: Store, namespace: str, claims: Iterable[str]) -> set[Attachment]:
    """The volumes that a node attaches for a pod with these claims."""
    found = set[Attachment]()
    for name in claims:
        claim = store.find("persistentvolumeclaims", name, namespace=namespace)
        attachment = None if claim is None else _attachment(store, claim)
        if attachment is not None and _needs_attaching(store, attachment.driver):
            found.add(attachment)
    return found


def volumes_of(store: Store, pod: Obj) -> set[Attachment]:
    """The existing volumes that the pod's node attaches for it."""
    metadata = pod["metadata"]
    bound = [
        name
        for name in claim_names(pod)
        if (_claim(store, metadata["namespace"], name).get("spec") or {}).get("volumeName")
    ]
    return attachments_of(store, metadata["namespace"], bound)


def limits_of(store: Store, node: str) -> dict[str, int]:
    """Driver -> most volumes that the node attaches, from its CSINode; drivers without a limit are absent."""
    found = store.find("csinodes", node, group=STORAGE)
    drivers = (found["spec"].get("drivers") or ()) if found else ()
    counts = {one["name"]: (one.get("allocatable") or {}).get("count") for one in drivers}
    return {driver: count for driver, count in counts.items() if count is not None}


def attachment_name(attachment: Attachment, node: str) -> str:
    """The name of the VolumeAttachment, always the same for the same volume and node."""
    text = "\0".join([*attachment, node])
    return f"csi-{hashlib.sha256(text.encode()).hexdigest()}"


def is_attached(store: Store, attachment: Attachment, node: str) -> bool:
    """Whether the volume is attached to the node."""
    found = store.find(ATTACHMENTS, attachment_name(attachment, node), group=STORAGE)
    return found is not None and bool((found.get("status") or {}).get("attached"))


def has_volumes(store: Store, pod: Obj) -> bool:
    """Whether all volumes of a placed pod are attached to its node."""
    node = pod["spec"]["nodeName"]
    return all(is_attached(store, one, node) for one in volumes_of(store, pod))


def _claim(store: Store, namespace: str, name: str) -> Obj:
    return store.find("persistentvolumeclaims", name, namespace=namespace) or {}


def _attachment(store: Store, claim: Obj) -> Attachment | None:
    name = claim["spec"].get("volumeName")
    if not name:
        driver = (class_of(store, claim) or {}).get("provisioner")
        return Attachment(driver, str(key_of(claim))) if driver else None
    volume = store.find("persistentvolumes", name)
    driver = (volume["spec"].get("csi") or {}).get("driver") if volume else None
    return Attachment(driver, name) if driver else None


def _needs_attaching(store: Store, driver: str) -> bool:
    """Whether the driver attaches volumes. CSIDrivers of shared file systems declare that they do not."""
    found = store.find("csidrivers", driver, group=STORAGE)
    return found is None or (found.get("spec") or {}).get("attachRequired") is not False
