"""Devices that the machines of an instance type will have: what drivers publish for the families of EC2.

The count, the product and the memory come from the catalogue. What only a running node knows, such as a device's uuid
or the version of its driver, is not here: a selector that asks for it selects no new machine.

- NVIDIA (``gpu.nvidia.com``): whole GPUs. How GPUs are partitioned is the operator's choice, so MIG is not assumed.
- Neuron (``neuron.aws.com``) and EFA (``dra.net``, AWS's driver for network interfaces).

GPUs and interfaces that the machine connects directly have the same ``resource.kubernetes.io/pcieRoot``, Neuron devices
and interfaces the same ``resource.aws.com/devicegroup<n>_id``. They are taken to be spread equally.
"""

from __future__ import annotations

from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.devices.records import Attribute, Device, DriverDevices
from shared.domain.instance_types.types import EFA, InstanceType

GPU_DRIVER, NEURON_DRIVER, EFA_DRIVER = "gpu.nvidia.com", "neuron.aws.com", "dra.net"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
DEVICE_GROUP = "resource.aws.com/devicegroup{}_id"
GROUP_SIZES = (1, 4, 8, 16)
MIB = 1024**2
NEURON = "aws.amazon.com/neuron"


class Product(NamedTuple):
    """What NVIDIA's driver says of a GPU."""

    name: str
    architecture: str
    compute: str


PRODUCTS = {
    "v100": Product("Tesla V100-SXM2", "Volta", "7.0.0"),
    "t4": Product("Tesla T4", "Turing", "7.5.0"),
    "t4g": Product("NVIDIA T4G", "Turing", "7.5.0"),
    "a10g": Product("NVIDIA A10G", "Ampere", "8.6.0"),
    "a100": Product("NVIDIA A100-SXM4", "Ampere", "8.0.0"),
    "l4": Product("NVIDIA L4", "Ada Lovelace", "8.9.0"),
    "l40s": Product("NVIDIA L40S", "Ada Lovelace", "8.9.0"),
    "h100": Product("NVIDIA H100 80GB HBM3", "Hopper", "9.0.0"),
    "h200": Product("NVIDIA H200", "Hopper", "9.0.0"),
    "b200": Product("NVIDIA B200", "Blackwell", "10.0.0"),
    "b300": Product("NVIDIA B300 SXM6 AC", "Blackwell", "10.3.0"),
    "rtx-pro-4500": Product("NVIDIA RTX PRO 4500 Blackwell Server Edition", "Blackwell", "12.0.0"),
    "rtx-pro-server-6000": Product(
        "NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell", "12.0.0"
    ),
}
"""By the catalogue's name of the GPU. Of another GPU the memory is known, its product is not."""

_WITH_SIZE = ("v100", "a100")
"""GPUs whose product name ends with their memory."""


def usual_devices(kind: InstanceType) -> tuple[DriverDevices, ...]:
    """By driver; empty for types without devices."""
    found = (_gpus(kind), _neurons(kind), _interfaces(kind))
    return tuple(one for one in found if one is not None)


def _label(kind: InstanceType, name: str) -> str:
    return next(iter(kind.labels.get(keys.AWS_PREFIX + name, ())), "")


def _number(kind: InstanceType, name: str) -> int:
    text = _label(kind, name)
    return int(text) if text.isdecimal() else 0


def _gpus(kind: InstanceType) -> DriverDevices | None:
    count = _number(kind, "instance-gpu-count")
    if not count or _label(kind, "instance-gpu-manufacturer") != "nvidia":
        return None
    mib = _number(kind, "instance-gpu-memory")
    name = _label(kind, "instance-gpu-name")
    attributes: dict[str, Attribute] = {"type": "gpu", "brand": "Nvidia"}
    versions = {}
    if product := PRODUCTS.get(name):
        size = f"-{mib // 1024}GB" if name in _WITH_SIZE else ""
        attributes |= {"productName": product.name + size, "architecture": product.architecture}
        versions[f"{GPU_DRIVER}/cudaComputeCapability"] = product.compute
    named = {f"{GPU_DRIVER}/{key}": value for key, value in attributes.items()}
    devices = (
        Device(
            f"gpu-{index}",
            {**named, f"{GPU_DRIVER}/index": index, PCIE_ROOT: _root(index)},
            versions,
            {f"{GPU_DRIVER}/memory": mib * MIB},
        )
        for index in range(count)
    )
    return DriverDevices(GPU_DRIVER, tuple(devices))


def _root(index: int) -> str:
    return f"pci0000:{index:02x}"


def _neurons(kind: InstanceType) -> DriverDevices | None:
    count = kind.capacity.get(NEURON, 0)
    if not count:
        return None
    domain = NEURON_DRIVER
    devices = (
        Device(
            f"neuron-device-{index}",
            {
                f"{domain}/deviceId": index,
                f"{domain}/instanceType": kind.name,
                **_groups(index, count),
            },
        )
        for index in range(count)
    )
    return DriverDevices(NEURON_DRIVER, tuple(devices))


def _groups(device: int, count: int) -> dict[str, Attribute]:
    """The groups of connected devices that a Neuron device belongs to."""
    sizes = (size for size in GROUP_SIZES if size <= count)
    return {DEVICE_GROUP.format(size): str(device // size) for size in sizes}


def _interfaces(kind: InstanceType) -> DriverDevices | None:
    count = kind.capacity.get(EFA, 0)
    if not count:
        return None
    gpus, neurons = _number(kind, "instance-gpu-count"), kind.capacity.get(NEURON, 0)
    devices = []
    for index in range(count):
        attributes: dict[str, Attribute] = {f"{EFA_DRIVER}/rdma": True}
        if gpus:
            attributes[PCIE_ROOT] = _root(index * gpus // count)
        if neurons:
            attributes |= _groups(index * neurons // count, neurons)
        devices.append(Device(f"efa-{index}", attributes))
    return DriverDevices(EFA_DRIVER, tuple(devices))
