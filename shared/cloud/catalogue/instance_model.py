"""Converts EC2's description of an instance type into the planner's record (docs/spec/instance-types.md). Pure.

This module computes the hardware part: CPU, memory without the hypervisor's share, devices, and the facts from which
``shared.domain.instance_types.sizes`` computes pods, disk and overhead for a pool's settings.

What may go wrong: a type whose name has no category and generation, or whose architecture
Kubernetes does not know, gives None (IT-02).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from shared.cloud.catalogue.instance_labels import (
    Description,
    architecture,
    build_labels,
    listed,
)
from shared.cloud.catalogue.reference_data import VpcLimit
from shared.domain.instance_types.size_settings import USUAL
from shared.domain.instance_types.sizes import MIB, sized
from shared.domain.instance_types.types import EFA, INSTANCE_NAME, InstanceType, Offering, SizeFacts
from shared.domain.resources import CPU, MEMORY

ARM64_RESERVED_MIB = 64
"""Graviton reserves this much contiguous memory that never reaches the operating system (IT-11)."""
EBS_DRIVER = "ebs.csi.aws.com"
USUAL_VOLUMES = 26
"""What most types attach."""
POD_ENI = "vpc.amazonaws.com/pod-eni"
GPU_RESOURCES = {
    "NVIDIA": "nvidia.com/gpu",
    "AMD": "amd.com/gpu",
    "Habana": "habana.ai/gaudi",
}


class ModelSettings(msgspec.Struct, frozen=True):
    """Process-wide settings (OPS-03, OPS-04). ``pod_eni`` and ``eni_limited_pod_density`` are True in every current
    Karpenter.
    """

    vm_memory_overhead_percent: float = 0.075
    reserved_enis: int = 0
    pod_eni: bool = True
    eni_limited_pod_density: bool = True
    isolated_vpc: bool = False


def build_instance_type(
    description: Description,
    *,
    offerings: Sequence[Offering],
    region: str,
    settings: ModelSettings,
    limits: Mapping[str, VpcLimit],
    bandwidth: Mapping[str, int],
    zone_ids: Mapping[str, str] | None = None,
) -> InstanceType | None:
    """One DescribeInstanceTypes item as the planner's ``InstanceType``, with the usual settings.

    None for a type that Dovetail does not handle (IT-02). Raises KeyError, TypeError or ValueError for a description
    without a required field.
    """
    name: str = description["InstanceType"]
    if not INSTANCE_NAME.match(name) or architecture(description) is None:
        return None
    capacity = _hardware(description, settings, limits.get(name))
    if min(capacity[CPU], capacity[MEMORY]) <= 0:
        raise ValueError(f"{capacity[CPU]} milli-CPU and {capacity[MEMORY]} bytes of memory")
    hardware = InstanceType(
        name=name,
        labels=build_labels(
            description,
            offerings=offerings,
            region=region,
            bandwidth=bandwidth,
            zone_ids=zone_ids or {},
        ),
        capacity=capacity,
        overhead={},
        offerings=tuple(sorted(offerings, key=lambda o: (o.zone, o.capacity_type))),
        volume_limits=_volume_limits(description),
    )
    return sized(hardware, size_facts(description, settings), USUAL)


def _volume_limits(description: Description) -> dict[str, int]:
    """What EC2 attaches beside the root volume (IT-50). EC2's number is already without the type's own disks, its
    accelerators and the first network interface, where they share the places."""
    most = (description.get("EbsInfo") or {}).get("MaximumEbsAttachments") or 0
    # Not more than usual: a dearer type is not worth its further volumes, which FewestNodes would not see.
    return {EBS_DRIVER: min(most - 1, USUAL_VOLUMES)} if most > 1 else {}


def _hardware(
    description: Description, settings: ModelSettings, limit: VpcLimit | None
) -> dict[str, int]:
    """Capacity in CPU, memory and devices (IT-10..12, IT-17, IT-18). Devices that the type lacks are absent."""
    devices = _accelerators(description) | _network_devices(description, settings, limit)
    return {
        CPU: description["VCpuInfo"]["DefaultVCpus"] * 1000,
        MEMORY: memory_bytes(description, settings.vm_memory_overhead_percent),
        **{resource: count for resource, count in sorted(devices.items()) if count > 0},
    }


def memory_bytes(description: Description, overhead_percent: float) -> int:
    """Memory in bytes, rounded to whole MiB, with Karpenter's floating-point arithmetic so that both agree (IT-11)."""
    size_mib: int = description["MemoryInfo"]["SizeInMiB"]
    if architecture(description) == "arm64":
        size_mib -= ARM64_RESERVED_MIB
    overhead_mib = math.ceil(size_mib * MIB * overhead_percent / 1024 / 1024)
    return max(size_mib - overhead_mib, 0) * MIB


def size_facts(description: Description, settings: ModelSettings) -> SizeFacts:
    """The facts for pod density and ephemeral storage (IT-13, IT-15). Only the default network card serves pods."""
    network = description["NetworkInfo"]
    cards = network.get("NetworkCards") or ()
    default = network.get("DefaultNetworkCardIndex", 0)
    on_card: int = next(
        (c["MaximumNetworkInterfaces"] for c in cards if c["NetworkCardIndex"] == default),
        network["MaximumNetworkInterfaces"],
    )
    limited = settings.eni_limited_pod_density
    return SizeFacts(
        interfaces=on_card,
        pod_interfaces=max(on_card - settings.reserved_enis, 0) if limited else None,
        addresses_per_interface=network["Ipv4AddressesPerInterface"],
        instance_store_gb=(description.get("InstanceStorageInfo") or {}).get("TotalSizeInGB") or 0,
        enclaves=_supported(description.get("NitroEnclavesSupport")),
    )


def _supported(written: str | None) -> bool | None:
    return None if written is None else written == "supported"


def _accelerators(description: Description) -> dict[str, int]:
    """GPUs and AWS accelerators as extended resources (IT-18).

    NeuronInfo takes precedence over the older InferenceAcceleratorInfo, which describes the same chips.
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
    description: Description, settings: ModelSettings, limit: VpcLimit | None
) -> dict[str, int]:
    """Branch interfaces (IT-17) and EFA interfaces (IT-18)."""
    efa = (description["NetworkInfo"].get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0)
    counts = {EFA: int(efa)}
    if limit is not None and limit.trunking and settings.pod_eni:
        counts[POD_ENI] = limit.branch_interfaces
    return counts
