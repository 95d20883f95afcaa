"""GPUs that a node reports: the machine's devices, multiplied when user data enables time-slicing.

Bottlerocket's settings for it are ``[settings.kubelet-device-plugins.nvidia]`` and its table ``time-slicing``.
Partitions of one GPU (MIG) are not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local.cluster.kubelet.instances import Accelerator

DEVICES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "HABANA": "habana.ai/gaudi"}
NVIDIA = DEVICES["NVIDIA"]
TIME_SLICING = "time-slicing"
DEFAULT_REPLICAS = 2


@dataclass(frozen=True)
class GpuSharing:
    """Number of pods that share an NVIDIA GPU, and whether the resource is then named ``nvidia.com/gpu.shared``."""

    replicas: int = 1
    renamed: bool = False


UNSHARED = GpuSharing()


def read_sharing(settings: Mapping[str, Any]) -> GpuSharing:
    """Read Bottlerocket's ``settings``. Raises ValueError that names the setting."""
    nvidia = _table(_table(settings, "kubelet-device-plugins"), "nvidia")
    if nvidia.get("device-sharing-strategy") != TIME_SLICING:
        return UNSHARED
    slicing = _table(nvidia, TIME_SLICING)
    replicas = slicing.get("replicas", DEFAULT_REPLICAS)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise ValueError(f"time-slicing.replicas: {replicas!r} is no whole number above 0")
    return GpuSharing(replicas, bool(slicing.get("rename-by-default", True)))


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name, {})
    if not isinstance(found, Mapping):
        raise ValueError(f"settings.{name}: {found!r} is no table")
    return found


def gpu_resources(gpus: Sequence[Accelerator], sharing: GpuSharing) -> dict[str, str]:
    """Resource name -> quantity."""
    found: dict[str, str] = {}
    for gpu in gpus:
        name = DEVICES.get(gpu.manufacturer.upper(), NVIDIA)
        if not gpu.count:
            continue
        if name == NVIDIA and sharing.renamed:
            found[f"{NVIDIA}.shared"] = str(gpu.count * sharing.replicas)
        else:
            found[name] = str(gpu.count * (sharing.replicas if name == NVIDIA else 1))
    return found
