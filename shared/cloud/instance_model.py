"""From EC2's description of an instance type to what pods can use on it (spec area 4). Pure.

    capacity   what the kubelet will report: cpu, memory after the hypervisor's share, pods, disk
    overhead   kubeReserved + systemReserved + hard eviction threshold, per resource

Arithmetic follows Karpenter to the byte (also where it uses floating point and rounds up), because
an allocatable that is one byte too large puts a pod on a node where it does not fit.

What may go wrong: a type whose name has no category and generation, or whose architecture
Kubernetes does not know, gives None (IT-02). A wrong quantity in kubelet settings raises
``InvalidObject`` naming the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from shared.cloud.instance_labels import (
    INSTANCE_NAME,
    Description,
    architecture,
    build_labels,
    listed,
)
from shared.cloud.node_settings import BlockDevice, ModelSettings, NodeSettings
from shared.cloud.reference_data import VpcLimit
from shared.domain.instance_types import InstanceType, Offering
from shared.domain.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    add,
    parse_amount,
    parse_resources,
)
from shared.errors import InvalidObject

MIB = 1024**2
GIB = 1024**3
GIGABYTE = 1000**3
ARM64_RESERVED_MIB = 64
"""Graviton reserves this much contiguous memory that never reaches the operating system (IT-11)."""
DEFAULT_PODS = 110
EVICTION_MEMORY_BYTES = 100 * MIB
POD_ENI = "vpc.amazonaws.com/pod-eni"
PRIVATE_IPV4 = "vpc.amazonaws.com/PrivateIPv4Address"
EFA = "vpc.amazonaws.com/efa"
GPU_RESOURCES = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Habana": "habana.ai/gaudi",
}
_CPU_BANDS = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, None, 25))
"""IT-30: (from milli-CPU, to, share in hundredths of a percent)."""


def build_instance_type(
    description: Description,
    *,
    offerings: Sequence[Offering],
    region: str,
    settings: ModelSettings,
    limits: Mapping[str, VpcLimit],
    bandwidth: Mapping[str, int],
    zone_ids: Mapping[str, str] | None = None,
    node: NodeSettings | None = None,
    discovered_memory_bytes: int | None = None,
) -> InstanceType | None:
    """One DescribeInstanceTypes item as the planner's ``InstanceType``.

    ``discovered_memory_bytes``: what a node of this type really reported (IT-12); replaces the
    estimate. None for a type that Dovetail does not handle (IT-02). Raises InvalidObject for wrong
    kubelet quantities.
    """
    name: str = description["InstanceType"]
    if not INSTANCE_NAME.match(name) or architecture(description) is None:
        return None
    template = node or NodeSettings()
    if template.windows and architecture(description) != "amd64":
        return None
    capacity = _capacity(description, settings, limits.get(name), template)
    if discovered_memory_bytes is not None:
        capacity[MEMORY] = discovered_memory_bytes
    return InstanceType(
        name=name,
        labels=build_labels(
            description,
            offerings=offerings,
            region=region,
            pods=capacity[PODS],
            bandwidth=bandwidth,
            zone_ids=zone_ids or {},
            node=template,
        ),
        capacity=capacity,
        overhead=_overhead(description, capacity, template),
        offerings=tuple(sorted(offerings, key=lambda o: (o.zone, o.capacity_type))),
    )


def _capacity(
    description: Description,
    settings: ModelSettings,
    limit: VpcLimit | None,
    node: NodeSettings,
) -> dict[str, int]:
    """IT-10..18. Devices that the type lacks are absent."""
    devices = _accelerators(description) | _network_devices(description, settings, limit, node)
    return {
        CPU: description["VCpuInfo"]["DefaultVCpus"] * 1000,
        MEMORY: memory_bytes(description, settings.vm_memory_overhead_percent),
        EPHEMERAL_STORAGE: _ephemeral_storage(description, node),
        PODS: _pods(description, settings, node),
        **{resource: count for resource, count in sorted(devices.items()) if count > 0},
    }


def memory_bytes(description: Description, overhead_percent: float) -> int:
    """IT-11: in bytes, whole MiB. Floating point as Karpenter does it, so that both agree."""
    size_mib: int = description["MemoryInfo"]["SizeInMiB"]
    if architecture(description) == "arm64":
        size_mib -= ARM64_RESERVED_MIB
    overhead_mib = math.ceil(size_mib * MIB * overhead_percent / 1024 / 1024)
    return max(size_mib - overhead_mib, 0) * MIB


def eni_limited_pods(description: Description, *, unusable_interfaces: int = 0) -> int:
    """How many pods the VPC CNI can address: only the default network card counts (IT-13)."""
    network = description["NetworkInfo"]
    cards = network.get("NetworkCards") or ()
    default = network.get("DefaultNetworkCardIndex", 0)
    on_card = next(
        (c["MaximumNetworkInterfaces"] for c in cards if c["NetworkCardIndex"] == default),
        network["MaximumNetworkInterfaces"],
    )
    usable = max(on_card - unusable_interfaces, 0)
    pods: int = usable * (network["Ipv4AddressesPerInterface"] - 1) + 2
    return pods if usable else 0


def _pods(description: Description, settings: ModelSettings, node: NodeSettings) -> int:
    kubelet = node.kubelet
    if kubelet.max_pods is not None:
        count = kubelet.max_pods
    elif settings.eni_limited_pod_density and not node.windows:
        count = eni_limited_pods(
            description, unusable_interfaces=settings.reserved_enis + node.efa_only_interfaces
        )
    else:
        count = DEFAULT_PODS
    if kubelet.pods_per_core and not node.bottlerocket:
        count = min(count, kubelet.pods_per_core * description["VCpuInfo"]["DefaultVCpus"])
    return count


def _ephemeral_storage(description: Description, node: NodeSettings) -> int:
    """IT-15, IT-16."""
    instance_store_gb = (description.get("InstanceStorageInfo") or {}).get("TotalSizeInGB")
    if node.raid0_instance_store and instance_store_gb:
        return int(instance_store_gb) * GIGABYTE
    mapped = _mapped_volume(node)
    size = mapped.volume_size if mapped and mapped.volume_size else node.default_volume[1]
    return parse_amount(EPHEMERAL_STORAGE, size, field="spec.blockDeviceMappings.ebs.volumeSize")


def _mapped_volume(node: NodeSettings) -> BlockDevice | None:
    devices = node.block_devices
    root = next((d for d in devices if d.root_volume and d.volume_size), None)
    if root is not None or not devices:
        return root
    if node.family == "Custom":
        return devices[-1]
    return next((d for d in devices if d.device_name == node.default_volume[0]), None)


def _accelerators(description: Description) -> dict[str, int]:
    """IT-18. NeuronInfo is newer and wins over InferenceAcceleratorInfo, which describes the same
    chips.
    """
    counts: dict[str, int] = {}
    for gpu in listed(description, "GpuInfo", "Gpus"):
        resource = GPU_RESOURCES.get(gpu["Manufacturer"])
        if resource:
            counts[resource] = counts.get(resource, 0) + gpu["Count"]
    neuron = listed(description, "NeuronInfo", "NeuronDevices")
    inference = listed(description, "InferenceAcceleratorInfo", "Accelerators")
    counts["aws.amazon.com/neuron"] = sum(device["Count"] for device in neuron or inference)
    counts["aws.amazon.com/neuroncore"] = sum(d["Count"] * _cores(d) for d in neuron)
    return counts


def _cores(device: Mapping[str, Any]) -> int:
    return int((device.get("CoreInfo") or {}).get("Count", 0))


def _network_devices(
    description: Description, settings: ModelSettings, limit: VpcLimit | None, node: NodeSettings
) -> dict[str, int]:
    """IT-14, IT-17, IT-18."""
    efa = (description["NetworkInfo"].get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0)
    counts = {EFA: int(efa)}
    if limit is not None and limit.trunking and settings.pod_eni:
        counts[POD_ENI] = limit.branch_interfaces
    if limit is not None and node.windows:
        counts[PRIVATE_IPV4] = limit.ipv4_per_interface - 1
    return counts


def _overhead(
    description: Description, capacity: Mapping[str, int], node: NodeSettings
) -> dict[str, int]:
    kubelet = node.kubelet
    field = "spec.kubelet"
    kube = _kube_reserved(description, capacity, node) | parse_resources(
        kubelet.kube_reserved, field=f"{field}.kubeReserved"
    )
    system = parse_resources(kubelet.system_reserved, field=f"{field}.systemReserved")
    total = add(kube, system, _eviction(capacity, kubelet.eviction_hard, f"{field}.evictionHard"))
    # IT-19: the kernel sets huge pages aside from memory, whoever reserved them.
    huge = sum(amount for name, amount in total.items() if name.startswith("hugepages-"))
    return total | {MEMORY: total[MEMORY] + huge}


def _kube_reserved(
    description: Description, capacity: Mapping[str, int], node: NodeSettings
) -> dict[str, int]:
    """IT-30..32, IT-36."""
    actual = node.bottlerocket or node.windows
    pods = capacity[PODS] if actual else eni_limited_pods(description)
    return {
        CPU: kube_reserved_cpu_milli(capacity[CPU]),
        MEMORY: (11 * pods + 255) * MIB,
        EPHEMERAL_STORAGE: GIB,
    }


def kube_reserved_cpu_milli(cpu_milli: int) -> int:
    """IT-30: each band is cut to whole milli-CPU."""
    reserved = 0
    for start, end, share in _CPU_BANDS:
        inside = max((cpu_milli if end is None else min(cpu_milli, end)) - start, 0)
        reserved += inside * share // 10_000
    return reserved


def _eviction(capacity: Mapping[str, int], hard: Mapping[str, str], field: str) -> dict[str, int]:
    """IT-33. Soft thresholds never count."""
    storage = capacity[EPHEMERAL_STORAGE]
    result = {MEMORY: EVICTION_MEMORY_BYTES, EPHEMERAL_STORAGE: math.ceil(storage / 100 * 10)}
    for signal, resource in (("memory.available", MEMORY), ("nodefs.available", EPHEMERAL_STORAGE)):
        if signal in hard:
            where = f"{field}[{signal}]"
            result[resource] = _threshold(resource, capacity[resource], hard[signal], where)
    return result


def _threshold(resource: str, capacity: int, text: str, field: str) -> int:
    if not text.endswith("%"):
        return parse_amount(resource, text, field=field)
    try:
        percent = float(text.rstrip("%"))
    except ValueError as error:
        raise InvalidObject(f"{text!r} is not a percentage such as 5%", field=field) from error
    if not 0 <= percent <= 100:
        raise InvalidObject("must be between 0% and 100%", field=field)
    # 100% switches a threshold off (KubeletConfiguration v1beta1).
    return 0 if percent == 100 else math.ceil(capacity / 100 * percent)
