"""Settings of a pool and its node class that change the size of machines: kubelet, family, volumes (IT-13..16).

The settings are reduced to the values that matter, so that equivalent settings are equal and pools with equal settings
share one table of sizes. The default is the size of the types in the catalogue: an AL2 machine, which equals an AL2023
machine except for a1.

An invalid quantity or percentage, possible in a Machine written by hand, raises ``InvalidObject`` naming the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.domain.instance_types.expressions import Expressions, parted
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.resources import EPHEMERAL_STORAGE, MEMORY, parse_amount, parse_resources
from shared.errors import InvalidObject

LINUX = "linux"
AL2023 = "al2023"
"""Same sizes as other Linux families, but it does not run on the first Graviton (IT-02)."""
BOTTLEROCKET = "bottlerocket"
WINDOWS_BUILDS = {
    "Windows2019": "10.0.17763",
    "Windows2022": "10.0.20348",
    "Windows2025": "10.0.26100",
}
"""AMI family -> its build (IT-40)."""
RAID0 = "RAID0"
EFA_ONLY, EFA_AND_ADDRESSES = "efa-only", "efa"
DEFAULT_VOLUME = ("/dev/xvda", "20Gi")
_WINDOWS_VOLUME = ("/dev/sda1", "50Gi")
_VOLUMES = {"Bottlerocket": ("/dev/xvdb", "20Gi"), "Ubuntu": ("/dev/sda1", "20Gi")}
"""AMI family -> device that holds the pods' data, and its default size (IT-16)."""

Amounts = tuple[tuple[str, int], ...]
"""Resource -> amount, sorted by name."""


class Threshold(msgspec.Struct, frozen=True):
    """An eviction threshold: an amount in bytes, or a percentage of the capacity."""

    amount: int = 0
    percent: float | None = None


class SizeSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings that determine sizes. Hashable, so they can be keys of a dictionary."""

    platform: str = LINUX
    """linux, al2023, bottlerocket, or a Windows family."""
    volume_bytes: int = 20 * 1024**3
    """Size of the volume that holds the pods' data (IT-15)."""
    instance_store: bool = False
    """The type's own disks hold the pods' data where it has some (RAID0)."""
    max_pods: int | None = None
    pods_per_core: int = 0
    """0: no such limit."""
    expressions: Expressions = Expressions()
    """Amounts that depend on the type; they take the place of ``max_pods`` and of the entries below."""
    efa_only_interfaces: int = 0
    """Interfaces of the first card that carry no pods (IT-13)."""
    efa_interfaces: int | None = None
    """Elastic Fabric Adapters that the class lists; None: it lists no interfaces (IT-18)."""
    placement_group: str = ""
    """Id of the class's placement group."""
    partitions: int = 0
    """Number of partitions of that group."""
    enclaves: bool = False
    """Machines start with Nitro Enclaves, which some types do not have (EC-14)."""
    images: tuple[str, ...] = ()
    """Ids of the class's images; the memory that nodes reported is known per image (IT-12)."""
    kube_reserved: Amounts = ()
    """Replaces the usual reservation per resource (IT-32)."""
    system_reserved: Amounts = ()
    memory_eviction: Threshold | None = None
    storage_eviction: Threshold | None = None
    """None: the usual one (IT-33)."""

    @classmethod
    def of(cls, owner: NodePool | Machine, node_class: NodeClass) -> SizeSettings:
        """Those of a pool, or of a machine, with its class. In v1 the kubelet's settings are the class's (P-20, EC-10).

        Raises InvalidObject.
        """
        if node_class.api.class_has_kubelet:
            return cls.of_class(node_class)
        kubelet, field = _kubelet_of(owner)
        return cls._of(kubelet, field, node_class)

    @classmethod
    def of_class(cls, node_class: NodeClass) -> SizeSettings:
        """Those of all machines of a v1 class. Raises InvalidObject."""
        kubelet, expressions = parted(node_class.kubelet)
        found = cls._of(kubelet, "spec.kubelet", node_class)
        return msgspec.structs.replace(found, expressions=expressions) if expressions else found

    @classmethod
    def _of(cls, kubelet: Mapping[str, object], field: str, node_class: NodeClass) -> SizeSettings:
        kubelet_settings = _read(kubelet, field)
        hard = f"{field}.evictionHard"
        return cls(
            platform=_platform(node_class.ami_family),
            volume_bytes=_volume_bytes(node_class),
            instance_store=_joins_disks(node_class),
            max_pods=kubelet_settings.max_pods,
            pods_per_core=kubelet_settings.pods_per_core or 0,
            efa_only_interfaces=_efa_only(node_class),
            efa_interfaces=_efa(node_class),
            placement_group=node_class.placement_group_id,
            partitions=node_class.partitions,
            enclaves=node_class.enclave_options.get("enabled") is True,
            images=node_class.image_ids,
            kube_reserved=_amounts(kubelet_settings.kube_reserved, f"{field}.kubeReserved"),
            system_reserved=_amounts(kubelet_settings.system_reserved, f"{field}.systemReserved"),
            memory_eviction=_threshold(
                kubelet_settings.eviction_hard, "memory.available", MEMORY, hard
            ),
            storage_eviction=_threshold(
                kubelet_settings.eviction_hard, "nodefs.available", EPHEMERAL_STORAGE, hard
            ),
        )

    @property
    def is_windows(self) -> bool:
        return self.platform in WINDOWS_BUILDS

    @property
    def is_bottlerocket(self) -> bool:
        return self.platform == BOTTLEROCKET


def _joins_disks(node_class: NodeClass) -> bool:
    """IT-15. The policy RAID0 has no effect on Windows."""
    is_windows = node_class.ami_family in WINDOWS_BUILDS
    return node_class.instance_store_policy == RAID0 and not is_windows


USUAL = SizeSettings()
"""The settings for which the catalogue's amounts are valid."""


class _Kubelet(msgspec.Struct, frozen=True, rename="camel"):
    """The part of KubeletConfiguration that counts; soft eviction never does (IT-33)."""

    max_pods: int | None = None
    pods_per_core: int | None = None
    kube_reserved: dict[str, str | int | float] | None = None
    system_reserved: dict[str, str | int | float] | None = None
    eviction_hard: dict[str, str] | None = None


def _kubelet_of(owner: NodePool | Machine) -> tuple[Mapping[str, object], str]:
    is_pool = isinstance(owner, NodePool)
    return owner.kubelet, "spec.kubeletConfiguration" if is_pool else "spec.kubelet"


def _read(kubelet: Mapping[str, object], field: str) -> _Kubelet:
    try:
        kubelet_settings = msgspec.convert(kubelet, _Kubelet)
    except msgspec.ValidationError as error:
        raise InvalidObject(str(error), field=field) from error
    for name, count in (
        ("maxPods", kubelet_settings.max_pods),
        ("podsPerCore", kubelet_settings.pods_per_core),
    ):
        if count is not None and count < 0:
            raise InvalidObject("must not be negative", field=f"{field}.{name}")
    return kubelet_settings


def _amounts(raw: object, field: str) -> Amounts:
    return tuple(sorted(parse_resources(raw, field=field).items()))


def _threshold(
    hard: Mapping[str, str] | None, signal: str, resource: str, field: str
) -> Threshold | None:
    text = (hard or {}).get(signal)
    if text is None:
        return None
    field = f"{field}[{signal}]"
    if not text.endswith("%"):
        return Threshold(amount=parse_amount(resource, text, field=field))
    try:
        percent = float(text.removesuffix("%"))
    except ValueError as error:
        raise InvalidObject(f"{text[:40]!r} is not a percentage such as 5%", field=field) from error
    if not 0 <= percent <= 100:
        raise InvalidObject("must be between 0% and 100%", field=field)
    # 100% switches a threshold off (KubeletConfiguration v1beta1).
    return Threshold() if percent == 100 else Threshold(percent=percent)


def _platform(family: str) -> str:
    """The platform of a family; families with equal sizes have the same platform."""
    if family in WINDOWS_BUILDS:
        return family
    return {"Bottlerocket": BOTTLEROCKET, "AL2023": AL2023}.get(family, LINUX)


def _volume_bytes(node_class: NodeClass) -> int:
    """IT-15: ephemeral storage; IT-16: default volumes."""
    family = node_class.ami_family
    device, usual = (
        _WINDOWS_VOLUME if family in WINDOWS_BUILDS else _VOLUMES.get(family, DEFAULT_VOLUME)
    )
    index = _mapped_volume(node_class, device)
    size = None if index is None else _ebs_size(node_class.block_device_mappings[index])
    where = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
    return parse_amount(EPHEMERAL_STORAGE, usual if size is None else size, field=where)


def _mapped_volume(node_class: NodeClass, device: str) -> int | None:
    """Position of the mapping whose volume holds the pods' data."""
    mapped = node_class.block_device_mappings
    for index, one in enumerate(mapped):
        if one.get("rootVolume") and _ebs_size(one) is not None:
            return index
    if node_class.ami_family == "Custom":
        return len(mapped) - 1 if mapped else None
    named = (index for index, one in enumerate(mapped) if one.get("deviceName") == device)
    return next(named, None)


def _ebs_size(mapping: Mapping[str, Any]) -> object:
    """The size as written; None for a volume with the size of its snapshot."""
    return (mapping.get("ebs") or {}).get("volumeSize")


def _efa(node_class: NodeClass) -> int | None:
    listed = node_class.network_interfaces
    kinds = (EFA_ONLY, EFA_AND_ADDRESSES)
    return sum(one.get("interfaceType") in kinds for one in listed) if listed else None


def _efa_only(node_class: NodeClass) -> int:
    return sum(
        one.get("interfaceType") == EFA_ONLY and one.get("networkCardIndex", 0) == 0
        for one in node_class.network_interfaces
    )
