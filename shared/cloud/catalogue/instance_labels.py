"""The labels of an instance type that follow from AWS's description (IT-40..46). Pure.

Keys without a value are left out: an absent label means DoesNotExist (IT-45). The one exception is
the hypervisor of bare metal, whose value is the empty string (IT-42).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared.domain import labels
from shared.domain.instance_types.types import INSTANCE_NAME, Offering

ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}
TENANCIES = ("dedicated", "default")

Description = Mapping[str, Any]
Labels = dict[str, tuple[str, ...]]


def kebab(text: str) -> str:
    """``"Radeon Pro V520"`` -> ``"radeon-pro-v520"``."""
    return text.lower().replace(" ", "-")


def architecture(description: Description) -> str | None:
    """The Kubernetes name of the first supported architecture; None for a Mac type."""
    supported: Iterable[str] = description["ProcessorInfo"].get("SupportedArchitectures") or ()
    return next((ARCHITECTURES[name] for name in supported if name in ARCHITECTURES), None)


def listed(description: Description, group: str, key: str) -> list[dict[str, Any]]:
    """``description[group][key]``, or nothing when the type has none of it."""
    return list((description.get(group) or {}).get(key) or ())


def build_labels(
    description: Description,
    *,
    offerings: Sequence[Offering],
    region: str,
    bandwidth: Mapping[str, int],
    zone_ids: Mapping[str, str],
) -> Labels:
    """Labels of a type whose name matches ``INSTANCE_NAME``; values sorted.

    Labels that depend on a pool's settings are not included (``shared.domain.instance_types.sizes``).
    """
    name: str = description["InstanceType"]
    ids = (zone_ids.get(offering.zone) for offering in offerings)
    single = (
        _kubernetes(description, region)
        | _name_parts(name)
        | _hardware(description)
        | _accelerators(description)
        | {"instance-network-bandwidth": bandwidth.get(name)}
    )
    many = {
        labels.ZONE: {offering.zone for offering in offerings},
        labels.ZONE_ID: {zone_id for zone_id in ids if zone_id},
        labels.CAPACITY_TYPE: {offering.capacity_type for offering in offerings},
        labels.AWS_PREFIX + "instance-tenancy": set(TENANCIES),
    }
    result: Labels = {_full(k): (str(v),) for k, v in single.items() if v is not None}
    result.update({key: tuple(sorted(values)) for key, values in many.items() if values})
    return result


def _full(key: str) -> str:
    return key if "/" in key else labels.AWS_PREFIX + key


def _kubernetes(description: Description, region: str) -> dict[str, Any]:
    return {
        labels.INSTANCE_TYPE: description["InstanceType"],
        labels.ARCH: architecture(description),
        labels.OS: "linux",
        labels.REGION: region,
    }


def _name_parts(name: str) -> dict[str, Any]:
    match = INSTANCE_NAME.match(name)
    family, _, size = name.partition(".")
    return {
        "instance-category": match[1] if match else None,
        "instance-generation": match[3] if match else None,
        "instance-family": family,
        "instance-size": size,
        "instance-capability-flex": _text("flex" in family),
    }


def _hardware(description: Description) -> dict[str, Any]:
    processor = description["ProcessorInfo"]
    network = description.get("NetworkInfo") or {}
    clock_ghz = processor.get("SustainedClockSpeedInGhz")
    manufacturer = processor.get("Manufacturer")
    return {
        "instance-hypervisor": description.get("Hypervisor", ""),
        "instance-cpu": description["VCpuInfo"]["DefaultVCpus"],
        "instance-cpu-manufacturer": kebab(manufacturer) if manufacturer else None,
        "instance-cpu-sustained-clock-speed-mhz": round(clock_ghz * 1000) if clock_ghz else None,
        "instance-memory": description["MemoryInfo"]["SizeInMiB"],
        "instance-ebs-bandwidth": _ebs_bandwidth(description.get("EbsInfo") or {}),
        "instance-local-nvme": _local_nvme(description.get("InstanceStorageInfo") or {}),
        "instance-encryption-in-transit-supported": _text(
            bool(network.get("EncryptionInTransitSupported"))
        ),
    }


def _text(truth: bool) -> str:
    return "true" if truth else "false"


def _ebs_bandwidth(ebs: Mapping[str, Any]) -> int | None:
    """The maximum of types that are EBS-optimised by default; for others it must be enabled at launch."""
    if ebs.get("EbsOptimizedSupport") != "default":
        return None
    maximum: int | None = (ebs.get("EbsOptimizedInfo") or {}).get("MaximumBandwidthInMbps")
    return maximum


def _local_nvme(storage: Mapping[str, Any]) -> int | None:
    if storage.get("NvmeSupport", "unsupported") == "unsupported":
        return None
    total: int | None = storage.get("TotalSizeInGB")
    return total


def _accelerators(description: Description) -> dict[str, Any]:
    """Labels of GPUs and accelerators (IT-43). A type with two models gets no label: no single value would be true."""
    gpus = listed(description, "GpuInfo", "Gpus")
    accelerators = listed(description, "NeuronInfo", "NeuronDevices") or listed(
        description, "InferenceAcceleratorInfo", "Accelerators"
    )
    result: dict[str, Any] = {}
    if len(gpus) == 1:
        result.update(_gpu(gpus[0]))
    if len(accelerators) == 1:
        device = accelerators[0]
        result["instance-accelerator-name"] = kebab(device["Name"])
        result["instance-accelerator-manufacturer"] = kebab(device.get("Manufacturer", "aws"))
        result["instance-accelerator-count"] = device["Count"]
    return result


def _gpu(gpu: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "instance-gpu-name": kebab(gpu["Name"]),
        "instance-gpu-manufacturer": kebab(gpu["Manufacturer"]),
        "instance-gpu-count": gpu["Count"],
        "instance-gpu-memory": (gpu.get("MemoryInfo") or {}).get("SizeInMiB"),
    }
