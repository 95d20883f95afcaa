"""The volumes of a node class's machines, as EC2 wants them: pure (T-09, EC-12, IT-16).

What may go wrong: a size that is no quantity, in a class that nobody checked: ``InvalidObject`` names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shared.domain.instance_types.size_settings import WINDOWS_BUILDS
from shared.domain.pools.nodepools import NodeClass
from shared.domain.resources import parse_quantity

_VOLUMES = {
    "Bottlerocket": (("/dev/xvda", 4), ("/dev/xvdb", 20)),
    "Ubuntu": (("/dev/sda1", 20),),
    "Custom": (),
    **dict.fromkeys(WINDOWS_BUILDS, (("/dev/sda1", 50),)),
}
_USUAL_VOLUMES = (("/dev/xvda", 20),)
"""AMI family -> devices and GiB when the class maps none (IT-16). A custom image knows its devices itself."""


def volumes(node_class: NodeClass) -> list[dict[str, Any]]:
    """BlockDeviceMappings: the class's own, or the family's. Raises InvalidObject."""
    mapped = [_volume(raw, index) for index, raw in enumerate(node_class.block_device_mappings)]
    return mapped or [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeSize": gib,
                "VolumeType": "gp3",
                "Encrypted": True,
                "DeleteOnTermination": True,
            },
        }
        for device, gib in _VOLUMES.get(node_class.ami_family, _USUAL_VOLUMES)
    ]


def _volume(raw: Mapping[str, Any], index: int) -> dict[str, Any]:
    ebs = raw.get("ebs") or {}
    field_name = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
    size = ebs.get("volumeSize")
    settings: dict[str, Any] = {
        "VolumeSize": None
        if size is None
        else math.ceil(parse_quantity(size, field=field_name) / 2**30),
        "VolumeType": ebs.get("volumeType"),
        "Iops": ebs.get("iops"),
        "Throughput": ebs.get("throughput"),
        "Encrypted": ebs.get("encrypted"),
        "KmsKeyId": ebs.get("kmsKeyID"),
        "DeleteOnTermination": ebs.get("deleteOnTermination"),
        "SnapshotId": ebs.get("snapshotID"),
        "VolumeInitializationRate": ebs.get("volumeInitializationRate"),
    }
    return {
        "DeviceName": raw.get("deviceName"),
        "Ebs": {name: value for name, value in settings.items() if value is not None},
    }
