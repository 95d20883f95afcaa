"""What a node reports as its capacity, and what is left of it for pods.

Capacity: memory is the type's nominal memory minus 7.5 % for the hypervisor and the kernel (Karpenter's
VM_MEMORY_OVERHEAD_PERCENT); arm64 machines first lose 64 MiB. Ephemeral storage is the largest volume, or the local
disks where the user data combines them. Reservations: EKS' bootstrap (cpu 6 % of the first core, 1 % of the second,
0.5 % of the next two, 0.25 % of the rest; memory 11 MiB per pod plus 255 MiB; 1 GiB of ephemeral storage) and the
kubelet's eviction thresholds (100 MiB of memory, a tenth of the storage), unless the settings name others.
"""

from __future__ import annotations

import math

from local.cluster.kubelet.gpu_sharing import gpu_resources
from local.cluster.kubelet.instances import Instance
from local.cluster.kubelet.user_data import KubeletConfiguration
from shared.domain.resources import MEMORY, add, parse_amount

MEMORY_OVERHEAD = 0.075
ARM_RESERVED_MIB = 64
MIB = 1024**2
GIB = 1024**3
GIGABYTE = 1000**3
CPU_BANDS = ((1000, 0.06), (1000, 0.01), (2000, 0.005))
LAST_BAND = 0.0025
EVICTION = {"memory.available": "100Mi", "nodefs.available": "10%"}
"""The kubelet's own thresholds."""


def reserved_milli_cpu(vcpus: int) -> int:
    """EKS' kube-reserved CPU in millicores; each band is rounded down to whole millicores."""
    left, reserved = vcpus * 1000, 0
    for width, share in CPU_BANDS:
        reserved += int(min(left, width) * share)
        left -= min(left, width)
    return reserved + int(left * LAST_BAND)


def memory_capacity_mib(memory_mib: int, architecture: str) -> int:
    """MiB that the kubelet reports."""
    if architecture == "arm64":
        memory_mib -= ARM_RESERVED_MIB
    return memory_mib - math.ceil(memory_mib * MEMORY_OVERHEAD)


def node_resources(
    instance: Instance, configuration: KubeletConfiguration
) -> tuple[dict[str, str], dict[str, str]]:
    """(capacity, allocatable) as quantities."""
    memory = memory_capacity_mib(instance.memory_mib, instance.architecture)
    storage = _storage(instance, configuration)
    capacity = {
        "cpu": f"{instance.vcpus * 1000}m",
        "memory": f"{memory}Mi",
        "pods": str(configuration.max_pods or instance.max_pods),
        "ephemeral-storage": str(storage),
        **gpu_resources(instance.gpus, configuration.gpu_sharing),
    }
    reserved = _reserved(instance, configuration)
    eviction = {**EVICTION, **configuration.eviction}
    kept = reserved["memory"] + _threshold(eviction["memory.available"], memory * MIB)
    disk = reserved["ephemeral-storage"] + _threshold(eviction["nodefs.available"], storage)
    allocatable = {
        **capacity,
        "cpu": f"{instance.vcpus * 1000 - reserved['cpu']}m",
        "memory": f"{memory - math.ceil(kept / MIB)}Mi",
        "ephemeral-storage": str(max(storage - disk, 0)),
    }
    return capacity, allocatable


def _storage(instance: Instance, configuration: KubeletConfiguration) -> int:
    """Bytes of the file system that holds the pods' data."""
    if configuration.local_disks and instance.instance_store_gb:
        return instance.instance_store_gb * GIGABYTE
    # User data is not executed, so which of several volumes it would mount for the kubelet is not known. Families
    # with two volumes (Bottlerocket) have their data on the larger one.
    return instance.largest_volume_gib * GIB


def _reserved(instance: Instance, configuration: KubeletConfiguration) -> dict[str, int]:
    """milli-CPU and bytes: what EKS' images reserve, unless the settings name the resource."""
    usual = {
        "cpu": reserved_milli_cpu(instance.vcpus),
        "memory": (11 * instance.max_pods + 255) * MIB,
        "ephemeral-storage": GIB,
    }
    return add({**usual, **configuration.kube_reserved}, configuration.system_reserved)


def _threshold(text: str, capacity: int) -> int:
    """Bytes below which the kubelet evicts; 100% switches the threshold off."""
    if not text.endswith("%"):
        return parse_amount(MEMORY, text, field="evictionHard")
    percent = float(text[:-1])
    return 0 if percent == 100 else math.ceil(capacity / 100 * percent)
