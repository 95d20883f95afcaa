"""Instance type descriptions, reduced to the fields that the instance model reads.

EC2 describes a type with about 150 values; Dovetail needs 42. For 1,400 types the rest would cost 15
MB, and every full garbage collection would visit it (50 ms and more in which no task runs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

_PLAIN = (
    "InstanceType",
    "Hypervisor",
    "SupportedUsageClasses",
    "GpuInfo",
    "NeuronInfo",
    "NitroEnclavesSupport",
)
_NESTED: dict[str, tuple[str, ...]] = {
    "ProcessorInfo": ("SupportedArchitectures", "SustainedClockSpeedInGhz", "Manufacturer"),
    "VCpuInfo": ("DefaultVCpus",),
    "MemoryInfo": ("SizeInMiB",),
    "InstanceStorageInfo": ("TotalSizeInGB", "NvmeSupport"),
    "InferenceAcceleratorInfo": ("Accelerators",),
    "NetworkInfo": (
        "DefaultNetworkCardIndex",
        "EfaInfo",
        "EncryptionInTransitSupported",
        "Ipv4AddressesPerInterface",
        "MaximumNetworkInterfaces",
    ),
}
_EBS = ("EbsOptimizedSupport", "MaximumEbsAttachments")
_CARD = ("NetworkCardIndex", "MaximumNetworkInterfaces", "BaselineBandwidthInGbps")


def compact(description: Mapping[str, Any]) -> Json:
    """The same structure with fewer fields; absent fields stay absent."""
    result = _pick(description, _PLAIN)
    for group, keys in _NESTED.items():
        if description.get(group):
            result[group] = _pick(description[group], keys)
    network = description.get("NetworkInfo") or {}
    if network.get("NetworkCards"):
        result["NetworkInfo"]["NetworkCards"] = [_pick(c, _CARD) for c in network["NetworkCards"]]
    ebs = description.get("EbsInfo")
    if ebs:
        optimised = _pick(ebs.get("EbsOptimizedInfo") or {}, ("MaximumBandwidthInMbps",))
        result["EbsInfo"] = _pick(ebs, _EBS) | {"EbsOptimizedInfo": optimised}
    return result


def _pick(source: Mapping[str, Any], keys: tuple[str, ...]) -> Json:
    return {key: source[key] for key in keys if key in source}
