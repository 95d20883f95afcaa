"""Instance types that moto's copy of DescribeInstanceTypes lacks, from ``data/further-types.json``.

Their network comes from the tables in ``shared/cloud/catalogue/data``. A type that moto has is not changed. IOPS, the
number of volumes and network queues are left out: no public table has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from shared.cloud.catalogue.reference_data import VpcLimit, network_bandwidth, vpc_limits

FILE = Path(__file__).parent / "data" / "further-types.json"
Row = dict[str, Any]
Facts = Mapping[str, Any]


def with_further_types(rows: Mapping[str, Row]) -> dict[str, Row]:
    """``rows`` of DescribeInstanceTypes by name, and those that are missing in it."""
    return {name: _description(name, facts) for name, facts in _facts().items()} | dict(rows)


def with_further_offerings(rows: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """``rows`` of DescribeInstanceTypeOfferings of one region and one kind of location, and those that are missing."""
    offered = {row["InstanceType"] for row in rows}
    missing = [
        {**row, "InstanceType": name}
        for name, facts in _facts().items()
        for row in rows
        if row["InstanceType"] == facts["zonesOf"] and name not in offered
    ]
    return [*rows, *missing]


@cache
def _facts() -> dict[str, Facts]:
    types: dict[str, Facts] = json.loads(FILE.read_text())["types"]
    return types


def _description(name: str, facts: Facts) -> Row:
    vcpus = facts["vcpus"]
    return {
        "InstanceType": name,
        "CurrentGeneration": True,
        "FreeTierEligible": False,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "SupportedInRegion": True,
        "BareMetal": False,
        "Hypervisor": "nitro",
        "ProcessorInfo": {
            "Manufacturer": facts["processor"],
            "SupportedArchitectures": ["x86_64"],
            "SustainedClockSpeedInGhz": facts["clockGhz"],
        },
        "VCpuInfo": {
            "DefaultVCpus": vcpus,
            "DefaultCores": vcpus // 2,
            "DefaultThreadsPerCore": 2,
            "ValidThreadsPerCore": [1, 2],
        },
        "MemoryInfo": {"SizeInMiB": facts["memoryMiB"]},
        "InstanceStorageSupported": True,
        "InstanceStorageInfo": _storage(facts),
        "EbsInfo": _volumes(facts),
        "NetworkInfo": _network(facts, vpc_limits()[name], network_bandwidth()[name]),
        "GpuInfo": _devices(facts),
        "BurstablePerformanceSupported": False,
    }


def _storage(facts: Facts) -> Row:
    disk = {"Count": facts["disks"], "SizeInGB": facts["diskGB"], "Type": "ssd"}
    total = facts["disks"] * facts["diskGB"]
    return {"TotalSizeInGB": total, "Disks": [disk], "NvmeSupport": "required"}


def _volumes(facts: Facts) -> Row:
    baseline, most = facts["ebsMbps"]
    bandwidth = {
        "BaselineBandwidthInMbps": baseline,
        "BaselineThroughputInMBps": baseline / 8,
        "MaximumBandwidthInMbps": most,
        "MaximumThroughputInMBps": most / 8,
    }
    return {
        "EbsOptimizedSupport": "default",
        "EncryptionSupport": "supported",
        "EbsOptimizedInfo": bandwidth,
        "NvmeSupport": "required",
    }


def _network(facts: Facts, limit: VpcLimit, mbps: int) -> Row:
    cards, efa = limit.interfaces_per_card, facts["efaInterfaces"]
    each = mbps / 1000 / len(cards)
    kinds = ["interface", "efa"] if efa else ["interface"]
    network: Row = {
        "MaximumNetworkInterfaces": limit.interfaces,
        "MaximumNetworkCards": len(cards),
        "DefaultNetworkCardIndex": limit.default_network_card,
        "NetworkCards": [
            {
                "NetworkCardIndex": index,
                "MaximumNetworkInterfaces": interfaces,
                "BaselineBandwidthInGbps": each,
                "InterfaceTypes": kinds,
            }
            for index, interfaces in enumerate(cards)
        ],
        "Ipv4AddressesPerInterface": limit.ipv4_per_interface,
        "Ipv6AddressesPerInterface": limit.ipv4_per_interface,
        "Ipv6Supported": True,
        "EnaSupport": "required",
        "EfaSupported": bool(efa),
        "EncryptionInTransitSupported": True,
    }
    return network | ({"EfaInfo": {"MaximumEfaInterfaces": efa}} if efa else {})


def _devices(facts: Facts) -> Row:
    each, count = facts["gpuMemoryMiB"], facts["gpus"]
    gpu = {
        "Name": facts["gpuName"],
        "Manufacturer": facts["gpuManufacturer"],
        "Count": count,
        "MemoryInfo": {"SizeInMiB": each},
    }
    return {"Gpus": [gpu], "TotalGpuMemoryInMiB": count * each}
