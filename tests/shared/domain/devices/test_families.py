"""The devices that instance types are expected to have (DRA-04)."""

from __future__ import annotations

from collections import Counter

from shared.domain.devices.families import PRODUCTS, usual_devices
from shared.domain.instance_types.types import InstanceType
from tests.support.planning.builders import real_catalogue

ROOT = "resource.kubernetes.io/pcieRoot"


def kind(name: str) -> InstanceType:
    return next(one for one in real_catalogue().types if one.name == name)


def test_gpus_have_product_memory_and_compute_capability() -> None:
    (gpus,) = (one for one in usual_devices(kind("p4d.24xlarge")) if one.driver == "gpu.nvidia.com")
    assert len(gpus.devices) == 8
    first = gpus.devices[0]
    assert first.attributes["gpu.nvidia.com/productName"] == "NVIDIA A100-SXM4-40GB"
    assert first.attributes["gpu.nvidia.com/architecture"] == "Ampere"
    assert first.versions == {"gpu.nvidia.com/cudaComputeCapability": "8.0.0"}
    assert first.capacity == {"gpu.nvidia.com/memory": 40960 * 1024**2}


def test_interfaces_lie_beside_the_gpus() -> None:
    """p5: four interfaces on the root of each of eight GPUs."""
    by_driver = {one.driver: one.devices for one in usual_devices(kind("p5.48xlarge"))}
    roots = Counter(one.attributes[ROOT] for one in by_driver["dra.net"])
    assert roots == dict.fromkeys((one.attributes[ROOT] for one in by_driver["gpu.nvidia.com"]), 4)


def test_neuron_devices_are_in_groups_with_their_interfaces() -> None:
    by_driver = {one.driver: one.devices for one in usual_devices(kind("trn1.32xlarge"))}
    group = "resource.aws.com/devicegroup4_id"
    assert Counter(one.attributes[group] for one in by_driver["neuron.aws.com"]) == {
        "0": 4, "1": 4, "2": 4, "3": 4,
    }  # fmt: skip
    assert Counter(one.attributes[group] for one in by_driver["dra.net"]) == {
        "0": 2, "1": 2, "2": 2, "3": 2,
    }  # fmt: skip


def test_a_type_without_devices_has_none() -> None:
    assert usual_devices(kind("m5.large")) == ()
    assert [one.driver for one in usual_devices(kind("g6f.large"))] == []


def test_the_products_of_the_catalogue_are_known() -> None:
    """A new GPU of EC2 is found here."""
    names = {
        name
        for one in real_catalogue().types
        if one.labels.get("karpenter.k8s.aws/instance-gpu-manufacturer") == ("nvidia",)
        for name in one.labels["karpenter.k8s.aws/instance-gpu-name"]
    }
    assert names <= PRODUCTS.keys()
