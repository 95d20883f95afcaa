"""What a node template says that changes the size of an instance type: family, kubelet, volumes
(IT-13..19, IT-30..36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

WINDOWS_BUILDS = {
    "Windows2019": "10.0.17763",
    "Windows2022": "10.0.20348",
    "Windows2025": "10.0.26100",
}
_DEFAULT_VOLUMES = {"Bottlerocket": ("/dev/xvdb", "20Gi"), "Ubuntu": ("/dev/sda1", "20Gi")}


class ModelSettings(msgspec.Struct, frozen=True):
    """Process-wide knobs (OPS-03, OPS-04). ``pod_eni`` and the density are True in every current
    Karpenter.
    """

    vm_memory_overhead_percent: float = 0.075
    reserved_enis: int = 0
    pod_eni: bool = True
    eni_limited_pod_density: bool = True
    isolated_vpc: bool = False


class Kubelet(msgspec.Struct, frozen=True, rename="camel"):
    """The part of KubeletConfiguration that counts here; amounts are Kubernetes quantities or
    percentages.
    """

    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: dict[str, str] = {}
    system_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}

    @classmethod
    def from_object(cls, raw: Mapping[str, Any] | None) -> Kubelet:
        """From ``spec.kubeletConfiguration`` or ``spec.kubelet``; other fields are ignored.

        Raises ``msgspec.ValidationError`` naming the wrong field.
        """
        present = {key: value for key, value in (raw or {}).items() if value is not None}
        return msgspec.convert(present, cls)


class BlockDevice(msgspec.Struct, frozen=True):
    """One block device mapping. ``volume_size`` is a quantity (``100Gi``) or None (from a
    snapshot).
    """

    device_name: str
    volume_size: str | None = None
    root_volume: bool = False


class NodeSettings(msgspec.Struct, frozen=True):
    """One node template's share. The default is a plain AL2 template."""

    family: str = "AL2"
    kubelet: Kubelet = Kubelet()
    block_devices: tuple[BlockDevice, ...] = ()
    raid0_instance_store: bool = False
    efa_only_interfaces: int = 0

    @property
    def windows(self) -> bool:
        return self.family in WINDOWS_BUILDS

    @property
    def bottlerocket(self) -> bool:
        return self.family == "Bottlerocket"

    @property
    def default_volume(self) -> tuple[str, str]:
        """(ephemeral device, size) when the template maps no volume (IT-16)."""
        windows = ("/dev/sda1", "50Gi")
        return windows if self.windows else _DEFAULT_VOLUMES.get(self.family, ("/dev/xvda", "20Gi"))
