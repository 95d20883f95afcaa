"""Facts about instance types and zones, from moto's copy of DescribeInstanceTypes and of the offerings.

Only the emulator's region is loaded (see ``local.aws.moto.resources``): other regions offer nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

USUAL_ATTACHMENTS = 27
"""EBS volumes that most types attach, for those of which nothing is said."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU model of an instance type. Memory is per GPU, in MiB."""

    name: str
    manufacturer: str
    count: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class InstanceTypeFacts:
    """The facts about one instance type that launches, prices and the control endpoint use."""

    name: str
    vcpus: int
    memory_mib: int
    architecture: str
    max_pods: int
    max_volumes: int
    """EBS volumes beside the root volume."""
    gpus: tuple[Gpu, ...]
    supports_spot: bool
    instance_store_gb: int = 0
    """All local disks together, in units of 10^9 bytes."""

    @property
    def gpu_count(self) -> int:
        """Number of GPUs of all models."""
        return sum(gpu.count for gpu in self.gpus)


class Catalogue:
    """Instance types by name, and the zones that offer them."""

    def __init__(
        self,
        types: Mapping[str, Mapping[str, Any]],
        offerings: Mapping[str, list[Mapping[str, str]]],
        zone_ids: Mapping[str, str],
    ) -> None:
        """``offerings`` is region -> rows {InstanceType, Location}; ``zone_ids`` is zone name -> id."""
        self.types = {name: _facts(name, row) for name, row in types.items()}
        self.zone_ids = dict(zone_ids)
        self._offered = {
            region: frozenset((row["InstanceType"], row["Location"]) for row in rows)
            for region, rows in offerings.items()
        }

    def offers(self, region: str, instance_type: str, zone: str) -> bool:
        """Whether ``zone`` offers ``instance_type``."""
        return (instance_type, zone) in self._offered.get(region, frozenset())

    def offered(self, region: str) -> list[tuple[str, str]]:
        """Every (instance type, zone) of the region, sorted."""
        return sorted(self._offered.get(region, frozenset()))


def _facts(name: str, row: Mapping[str, Any]) -> InstanceTypeFacts:
    network = row["NetworkInfo"]
    per_interface = int(network.get("Ipv4AddressesPerInterface", 1))
    interfaces = int(network.get("MaximumNetworkInterfaces", 1))
    architectures = row["ProcessorInfo"]["SupportedArchitectures"]
    gpus = row.get("GpuInfo", {}).get("Gpus", [])
    return InstanceTypeFacts(
        name=name,
        vcpus=int(row["VCpuInfo"]["DefaultVCpus"]),
        memory_mib=int(row["MemoryInfo"]["SizeInMiB"]),
        architecture="arm64" if "arm64" in architectures else "x86_64",
        max_pods=interfaces * (per_interface - 1) + 2,
        max_volumes=int((row.get("EbsInfo") or {}).get("MaximumEbsAttachments", USUAL_ATTACHMENTS))
        - 1,
        gpus=tuple(_gpu(gpu) for gpu in gpus),
        supports_spot="spot" in row.get("SupportedUsageClasses", []),
        instance_store_gb=int((row.get("InstanceStorageInfo") or {}).get("TotalSizeInGB", 0)),
    )


def _gpu(row: Mapping[str, Any]) -> Gpu:
    return Gpu(
        name=str(row.get("Name", "")),
        manufacturer=str(row.get("Manufacturer", "")),
        # A fractional GPU (g6f) has no count in EC2's answer, but the instance shows one device.
        count=int(row.get("Count") or 1),
        memory_mib=int(row.get("MemoryInfo", {}).get("SizeInMiB", 0)),
    )
