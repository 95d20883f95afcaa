"""Are the volumes of a class as large as what is to be on them? Pure (T-09, EC-12). EC2 would refuse every launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from services.launcher.launch_template.block_devices import volumes
from services.launcher.node_class.problems import VALIDATION_SUCCEEDED, Problem
from shared.cloud.ec2.records import Image
from shared.domain.pools.nodepools import NodeClass

TOO_SMALL, NO_SNAPSHOT = "VolumeTooSmall", "SnapshotNotFound"
FIELD = "spec.blockDeviceMappings"


def snapshots_of(node_class: NodeClass) -> frozenset[str]:
    """Ids of the snapshots that its volumes start from."""
    return frozenset(_snapshot(mapping) for mapping in volumes(node_class)) - {""}


def volume_problems(
    node_class: NodeClass, images: Iterable[Image], snapshot_gib: Mapping[str, int] | None
) -> list[Problem]:
    """Each volume that is too small, or has no snapshot. ``snapshot_gib``: id -> size; None when we may not look."""
    images = list(images)
    found: list[Problem] = []
    for index, mapping in enumerate(volumes(node_class)):
        field = f"{FIELD}[{index}].ebs" if node_class.block_device_mappings else FIELD
        if _snapshot(mapping):
            found += _by_snapshot(mapping, snapshot_gib, field)
        else:
            found += _by_images(mapping, images, field)
    return found


def _by_snapshot(
    mapping: Mapping[str, Any], snapshot_gib: Mapping[str, int] | None, field: str
) -> list[Problem]:
    snapshot, size = _snapshot(mapping), mapping["Ebs"].get("VolumeSize")
    if snapshot_gib is None:
        return []
    if snapshot not in snapshot_gib:
        text = f"{field}.snapshotID: EC2 has no snapshot {snapshot} that we may use; name another"
        return [Problem(VALIDATION_SUCCEEDED, NO_SNAPSHOT, text)]
    least = snapshot_gib[snapshot]
    if size is None or size >= least:
        return []
    text = f"{field}.volumeSize: {size}Gi is too small for snapshot {snapshot}; give it {least}Gi"
    return [Problem(VALIDATION_SUCCEEDED, TOO_SMALL, text)]


def _by_images(mapping: Mapping[str, Any], images: list[Image], field: str) -> list[Problem]:
    device, size = mapping["DeviceName"], mapping["Ebs"].get("VolumeSize")
    needing = [(image.volumes.get(device, 0), image.id) for image in images]
    least, image_id = max(needing, default=(0, ""))
    if size is None or size >= least:
        return []
    text = (
        f"{field}: the volume {device} has {size}Gi, which is too small for image {image_id}; "
        f"give it {least}Gi"
    )
    return [Problem(VALIDATION_SUCCEEDED, TOO_SMALL, text)]


def _snapshot(mapping: Mapping[str, Any]) -> str:
    return str(mapping["Ebs"].get("SnapshotId") or "")
