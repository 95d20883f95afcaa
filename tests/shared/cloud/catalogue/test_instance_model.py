"""What a machine of a type offers: the vectors of docs/spec/instance-types.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.cloud.catalogue.instance_model import ModelSettings, memory_bytes
from shared.cloud.catalogue.reference_data import vpc_limits
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.sizes import GIB, MIB
from shared.domain.instance_types.types import Offering
from shared.domain.pools.generations import V1
from tests.support.planning.builders import make_node_class, make_pool

Build = Callable[..., Any]


def sizes(**node_class: Any) -> SizeSettings:
    """Settings of a v1 pool whose class says this."""
    described = make_node_class(generation_api=V1, **node_class)
    return SizeSettings.of(make_pool(generation_api=V1), described)


NETWORK_VECTORS = [
    ("t3.medium", 3, 6, False, 0),
    ("t3.large", 3, 12, False, 0),
    ("m4.large", 2, 10, False, 0),
    ("m5.large", 3, 10, True, 9),
    ("c5a.large", 3, 10, True, 9),
    ("m6g.large", 3, 10, True, 9),
    ("m5.xlarge", 4, 15, True, 18),
    ("m5.2xlarge", 4, 15, True, 38),
    ("c7i.2xlarge", 4, 15, True, 38),
    ("c7i.4xlarge", 8, 30, True, 54),
    ("m5.12xlarge", 8, 30, True, 54),
    ("c5n.9xlarge", 8, 30, True, 54),
    ("m5d.16xlarge", 15, 50, True, 107),
    ("c6i.16xlarge", 15, 50, True, 107),
    ("c6i.32xlarge", 15, 50, True, 107),
    ("m6a.32xlarge", 15, 50, True, 107),
    ("g4dn.xlarge", 3, 10, True, 39),
    ("p4d.24xlarge", 60, 50, True, 62),
]


@pytest.mark.parametrize(("name", "interfaces", "addresses", "trunking", "branch"), NETWORK_VECTORS)
def test_network_limits_are_those_of_the_table(
    name: str, interfaces: int, addresses: int, trunking: bool, branch: int
) -> None:
    """IT-20: table of network interfaces."""
    limit = vpc_limits()[name]
    assert (limit.interfaces, limit.ipv4_per_interface) == (interfaces, addresses)
    assert (limit.trunking, limit.branch_interfaces if limit.trunking else 0) == (trunking, branch)


@pytest.mark.parametrize(
    ("name", "pods"),
    [
        ("t3.medium", 17),
        ("m5.large", 29),
        ("m5.xlarge", 58),
        ("c7i.2xlarge", 58),
        ("m5.12xlarge", 234),
        ("m5d.16xlarge", 737),
        ("p4d.24xlarge", 15 * 49 + 2),
    ],
)
def test_pods_are_limited_by_the_default_network_card(build: Build, name: str, pods: int) -> None:
    """IT-13, IT-21; p4d has four cards and the CNI uses the first."""
    assert build(name).capacity["pods"] == pods


def test_the_worked_vector_of_c7i_2xlarge(build: Build) -> None:
    """IT-35: a c7i.2xlarge worked out; ACC-42: allocatable of a c7i.2xlarge."""
    one = build("c7i.2xlarge")
    assert one.capacity["memory"] == 15155 * MIB
    assert one.allocatable() == {
        "cpu": 7910,
        "memory": 14162 * MIB,
        "ephemeral-storage": 17 * GIB,
        "pods": 58,
        "vpc.amazonaws.com/pod-eni": 38,
    }


@pytest.mark.parametrize(
    ("name", "cpu"), [("t3.medium", 2), ("m5.12xlarge", 48), ("c6i.32xlarge", 128)]
)
def test_cpu_is_what_the_type_has_by_default(build: Build, name: str, cpu: int) -> None:
    """IT-10: DefaultVCpus, in milli-cores."""
    assert build(name).capacity["cpu"] == cpu * 1000


def test_arm_machines_lose_64_mib_before_the_overhead(describe: Any) -> None:
    """IT-11: (8192 - 64) - ceil(8128 x 0.075)."""
    assert memory_bytes(describe("m6g.large"), 0.075) == (8128 - 610) * MIB
    assert memory_bytes(describe("m5.large"), 0.0) == 8192 * MIB


def test_max_pods_changes_pods_but_not_the_memory_reserved_on_al2(build: Build) -> None:
    """IT-13: number of pods; IT-31: memory kept for the kubelet."""
    limited = build("m5.large", sizes=sizes(kubelet={"maxPods": 10}))
    assert limited.capacity["pods"] == 10
    assert limited.labels["karpenter.k8s.aws/instance-pods"] == ("10",)
    assert limited.overhead["memory"] == build("m5.large").overhead["memory"]


def test_bottlerocket_reserves_memory_for_the_actual_pods(build: Build) -> None:
    """IT-31: memory kept for the kubelet; IT-36: overhead of Bottlerocket and Windows."""
    settings = sizes(ami_family="Bottlerocket", kubelet={"maxPods": 10})
    one = build("m5.large", sizes=settings)
    assert one.overhead["memory"] == (11 * 10 + 255 + 100) * MIB


def test_pods_per_core_caps_pods_except_on_bottlerocket(build: Build) -> None:
    """IT-13: number of pods."""
    kubelet = {"podsPerCore": 4}
    assert build("m5.large", sizes=sizes(kubelet=kubelet)).capacity["pods"] == 8
    bottlerocket = sizes(ami_family="Bottlerocket", kubelet=kubelet)
    assert build("m5.large", sizes=bottlerocket).capacity["pods"] == 29


def test_interfaces_for_efa_only_have_no_addresses_for_pods(build: Build) -> None:
    """IT-13, EC-14: those of other cards never counted."""
    interfaces = (
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
        {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
    )
    settings = sizes(network_interfaces=interfaces)
    assert build("p4d.24xlarge", sizes=settings).capacity["pods"] == 14 * 49 + 2
    assert build("p4d.24xlarge", sizes=settings).capacity["vpc.amazonaws.com/efa"] == 2, (
        "IT-18: as many as the class lists, not the four that the type could have"
    )


def test_reserved_interfaces_lower_pods_down_to_zero(build: Build) -> None:
    """IT-13: no usable interface means no pods, not two."""
    assert build("m5.large", settings=ModelSettings(reserved_enis=1)).capacity["pods"] == 20
    assert build("m5.large", settings=ModelSettings(reserved_enis=9)).capacity["pods"] == 0


def test_without_density_every_type_takes_110_pods(build: Build) -> None:
    """IT-13, OPS-04 aws.enableENILimitedPodDensity."""
    settings = ModelSettings(eni_limited_pod_density=False)
    assert build("t3.medium", settings=settings).capacity["pods"] == 110


def test_pod_eni_can_be_switched_off(build: Build) -> None:
    """IT-17 up to v0.31."""
    resource = "vpc.amazonaws.com/pod-eni"
    assert build("m5.large").capacity[resource] == 9
    assert resource not in build("m5.large", settings=ModelSettings(pod_eni=False)).capacity
    assert resource not in build("t3.medium").capacity


@pytest.mark.parametrize(
    ("name", "resource", "count"),
    [
        ("g4dn.xlarge", "nvidia.com/gpu", 1),
        ("p4d.24xlarge", "nvidia.com/gpu", 8),
        ("p4d.24xlarge", "vpc.amazonaws.com/efa", 4),
        ("inf1.xlarge", "aws.amazon.com/neuron", 1),
        ("inf1.xlarge", "aws.amazon.com/neuroncore", 4),
        ("trn1.32xlarge", "aws.amazon.com/neuron", 16),
        ("trn1.32xlarge", "aws.amazon.com/neuroncore", 32),
    ],
)
def test_devices_are_counted(build: Build, name: str, resource: str, count: int) -> None:
    """IT-18: accelerators."""
    assert build(name).capacity[resource] == count


@pytest.mark.parametrize(
    ("manufacturer", "resource"), [("Habana", "habana.ai/gaudi"), ("AMD", "amd.com/gpu")]
)
def test_gpus_of_other_makers_have_their_own_resource(
    build: Build, manufacturer: str, resource: str
) -> None:
    """IT-18; moto describes no type with them."""
    gpus = {"Gpus": [{"Name": "X", "Manufacturer": manufacturer, "Count": 8}]}
    assert build("m5.large", GpuInfo=gpus).capacity[resource] == 8


def test_windows_takes_110_pods_and_has_addresses(build: Build) -> None:
    """IT-14, IT-16, IT-31; there is no Windows for Graviton."""
    windows = sizes(ami_family="Windows2022")
    offered = (Offering("us-west-2a", "on-demand", 96_000),)
    one = build("m5.large", sizes=windows, offerings=offered)
    assert one.capacity["pods"] == 110
    assert one.capacity["vpc.amazonaws.com/PrivateIPv4Address"] == 9
    assert one.capacity["ephemeral-storage"] == 50 * GIB
    assert one.overhead["memory"] == (11 * 110 + 255 + 100) * MIB
    assert one.offerings == offered
    assert build("m6g.large", sizes=windows, offerings=offered).offerings == ()


def test_the_instance_store_holds_pods_with_raid0(build: Build) -> None:
    """IT-15: 75 GB of m5d.large; a type without disks of its own keeps its volume."""
    raid0 = sizes(instance_store_policy="RAID0")
    assert build("m5d.large", sizes=raid0).capacity["ephemeral-storage"] == 75 * 10**9
    assert build("m5.large", sizes=raid0).capacity["ephemeral-storage"] == 20 * GIB
    windows = sizes(instance_store_policy="RAID0", ami_family="Windows2022")
    assert build("m5d.large", sizes=windows).capacity["ephemeral-storage"] == 50 * GIB, (
        "nothing joins the disks of Windows"
    )


def test_a_root_volume_of_100_gib_leaves_89_to_pods(build: Build) -> None:
    """IT-15, IT-32..34: 1 GiB for the kubelet, a tenth for eviction."""
    mapping = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "100Gi"}}
    one = build("c7i.2xlarge", sizes=sizes(block_device_mappings=(mapping,)))
    assert one.allocatable()["ephemeral-storage"] == 89 * GIB
    assert one.allocatable()["memory"] == 14162 * MIB


def test_reservations_of_the_user_override_per_key(build: Build) -> None:
    """IT-32: storage kept, and overrides; IT-33: eviction threshold."""
    kubelet = {
        "kubeReserved": {"cpu": "200m"},
        "systemReserved": {"memory": "50Mi"},
        "evictionHard": {"memory.available": "5%", "nodefs.available": "100%"},
    }
    one = build("m5.large", sizes=sizes(kubelet=kubelet))
    five_percent = -(-one.capacity["memory"] * 5 // 100)
    assert one.overhead["cpu"] == 200
    assert one.overhead["memory"] == (11 * 29 + 255 + 50) * MIB + five_percent
    assert one.overhead["ephemeral-storage"] == GIB


def test_types_without_category_or_known_architecture_are_dropped(build: Build) -> None:
    """IT-02: types without a category; IT-03: parts of a type's name."""
    assert build("mac2.metal") is None
    assert build("m5.large", InstanceType="mac-m4.metal") is None
    assert build("m5.large", InstanceType="large") is None


def test_a_type_newer_than_the_tables_still_builds(build: Build) -> None:
    one = build("m5.large", InstanceType="m99x.large")
    assert one.capacity["pods"] == 29
    assert "karpenter.k8s.aws/instance-network-bandwidth" not in one.labels


@pytest.mark.parametrize(
    ("name", "volumes"), [("m5.large", 26), ("m7i.large", 26), ("g5.xlarge", 24), ("t2.micro", 26)]
)
def test_ec2_says_how_many_volumes_a_type_attaches(build: Build, name: str, volumes: int) -> None:
    """IT-50: beside the root volume."""
    assert build(name).volume_limits == {"ebs.csi.aws.com": volumes}
