"""What a launch template says, how it is named and tagged (LCH-20..LCH-24), from seed 002 to every option of EC-14."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.launcher.launch_template.content import (
    NITRO_SANDBOX,
    TENANCY,
    template_data,
    template_name,
    template_name_v1,
    template_tags,
)
from services.launcher.launch_template.variants import Choice, Variant, variants
from services.launcher.resolved_class import BootImage, BootImages, Resolved
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.cloud.ec2.records import Image, SecurityGroup
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import EFA, InstanceType, Offering
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1
from shared.domain.requirements import Requirement, Requirements
from shared.errors import InvalidObject
from tests.support.planning.builders import make_machine, make_node_class, make_type

SEED = Path(__file__).parents[3] / "seeds" / "manifests" / "002-2-node-template-indented.yaml"
GROUPS = (SecurityGroup("sg-2", "b"), SecurityGroup("sg-1", "a"))
MACHINE = make_machine()


def boot_image(name: str, arch: str) -> BootImage:
    image = Image(name, name, arch, "", "amazon", False)
    return BootImage(image, Requirements([Requirement(keys.ARCH, False, frozenset({arch}))]))


IMAGES = BootImages((boot_image("ami-amd", "amd64"), boot_image("ami-arm", "arm64")))


def resolved(**node_class: Any) -> Resolved:
    return Resolved(make_node_class(**node_class), (), GROUPS, IMAGES, "Profile")


def data(
    machine: Machine = MACHINE, variant: Variant | None = None, **node_class: Any
) -> dict[str, Any]:
    wanted = variant or Variant("ami-1")
    return template_data(machine, resolved(**node_class), wanted, "#!/bin/sh", cluster="demo")


def v1_data(
    machine: Machine = MACHINE, variant: Variant | None = None, **node_class: Any
) -> dict[str, Any]:
    return data(machine, variant, generation_api=V1, **node_class)


def requiring(key: str, *values: str) -> Machine:
    return make_machine(requirements=(Expression(key, "In", values),))


def test_the_same_data_has_the_same_name_whatever_its_order() -> None:
    """LCH-20: names of launch templates of v1alpha5."""
    name = template_name("dev", {"a": 1, "b": {"c": 2, "d": 3}})
    assert name == template_name("dev", {"b": {"d": 3, "c": 2}, "a": 1})
    assert name.startswith("Karpenter-dev-")
    assert name.removeprefix("Karpenter-dev-").isdigit()
    assert name != template_name("dev", {"a": 2, "b": {"c": 2, "d": 3}})
    assert name != template_name("other", {"a": 1, "b": {"c": 2, "d": 3}})


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=5))
def test_a_name_fits_in_ec2s_limit(content: dict[str, int]) -> None:
    """128 characters; EKS allows 100 for a cluster's name."""
    assert len(template_name("c" * 100, content)) <= 128


def test_the_defaults_are_an_encrypted_disk_and_tokens_for_metadata() -> None:
    """LCH-24: content of a launch template; T-08: metadata options; T-09: block device mappings."""
    made = data()
    assert made["ImageId"] == "ami-1"
    assert base64.b64decode(made["UserData"]) == b"#!/bin/sh"
    assert made["SecurityGroupIds"] == ["sg-1", "sg-2"]
    assert made["IamInstanceProfile"] == {"Name": "Profile"}
    assert made["Monitoring"] == {"Enabled": False}
    absent = ("Placement", "CpuOptions", "CapacityReservationSpecification", "NetworkInterfaces")
    assert not set(absent) & set(made)
    assert made["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpProtocolIpv6": "disabled",
        "HttpPutResponseHopLimit": 2,
        "HttpTokens": "required",
    }
    (volume,) = made["BlockDeviceMappings"]
    assert volume["DeviceName"] == "/dev/xvda"
    assert volume["Ebs"] == {
        "VolumeSize": 20,
        "VolumeType": "gp3",
        "Encrypted": True,
        "DeleteOnTermination": True,
    }


def test_the_template_of_the_seed_is_asked_for_as_written() -> None:
    """ACC-23, seed 002: the whole data, from the published manifest."""
    node_class = parse_node_template(yaml.safe_load(SEED.read_text())).require("seed")
    found = Resolved(node_class, (), GROUPS, IMAGES, node_class.instance_profile)
    made = template_data(MACHINE, found, Variant("ami-1", 29), "#!/bin/sh", cluster="demo")
    assert {*tagged(made)} == {"network-interface"}
    assert {k: v for k, v in made.items() if k != "TagSpecifications"} == {
        "ImageId": "ami-1",
        "UserData": base64.b64encode(b"#!/bin/sh").decode(),
        "SecurityGroupIds": ["sg-1", "sg-2"],
        "IamInstanceProfile": {"Name": "KarpenterInstanceProfile"},
        "Monitoring": {"Enabled": True},
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpProtocolIpv6": "disabled",
            "HttpPutResponseHopLimit": 2,
            "HttpTokens": "required",
        },
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeSize": 30,
                    "VolumeType": "gp3",
                    "Iops": 3000,
                    "Throughput": 125,
                    "Encrypted": True,
                    "KmsKeyId": "arn:aws:kms:ap-northeast-2:558846430793:key/"
                    "6f29df3a-fb94-48e4-b359-a88fb74ce78d",
                    "DeleteOnTermination": True,
                },
            }
        ],
    }
    assert template_tags(MACHINE, node_class, "bys-dev-eks-main") == {
        "Name": "karpenter-eks-main/karpenter-default",
        "auto-delete": "no",
        "kubernetes.io/cluster/bys-dev-eks-main": "owned",
        "karpenter.k8s.aws/cluster": "bys-dev-eks-main",
    }
    name = template_name("bys-dev-eks-main", made)
    assert name.startswith("Karpenter-bys-dev-eks-main-")


def test_metadata_options_of_the_class_win_over_the_defaults() -> None:
    """T-08, with EC2's spelling of IPv6."""
    options = {"httpTokens": "optional", "httpProtocolIPv6": "enabled"}
    made = data(metadata_options=options)["MetadataOptions"]
    assert made["HttpTokens"] == "optional"
    assert made["HttpProtocolIpv6"] == "enabled"
    assert made["HttpEndpoint"] == "enabled"
    assert "HttpProtocolIPv6" not in made


def test_v1_answers_the_machine_only_and_hides_its_tags() -> None:
    """EC-13, LCH-24: one hop, so that a pod does not reach the node's credentials."""
    made = data(generation_api=V1)["MetadataOptions"]
    assert made["HttpPutResponseHopLimit"] == 1
    assert made["InstanceMetadataTags"] == "disabled"
    own = data(generation_api=V1, metadata_options={"httpPutResponseHopLimit": 3})
    assert own["MetadataOptions"]["HttpPutResponseHopLimit"] == 3


@pytest.mark.parametrize("public", [True, False])
def test_a_wish_about_public_addresses_needs_an_interface_which_has_the_groups(
    public: bool,
) -> None:
    """LCH-14: EC2 refuses groups in both places."""
    made = data(associate_public_ip=public)
    assert "SecurityGroupIds" not in made
    assert made["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"], "AssociatePublicIpAddress": public}
    ]
    (interface,) = data(ip_prefix_count=2)["NetworkInterfaces"]
    assert interface["Ipv4PrefixCount"] == 2
    assert "AssociatePublicIpAddress" not in interface


def test_a_v1_template_is_named_by_data_and_owner() -> None:
    """LCH-20 [1]: what one class deletes, another must not need (LCH-22)."""
    name = template_name_v1({"a": 1}, {"owner": "x"})
    assert name == template_name_v1({"a": 1}, {"owner": "x"})
    assert name.startswith("karpenter.k8s.aws/")
    assert name.removeprefix("karpenter.k8s.aws/").isdigit()
    assert name != template_name_v1({"a": 1}, {"owner": "y"})
    assert name != template_name_v1({"a": 2}, {"owner": "x"})


def test_templates_carry_their_owner() -> None:
    """LCH-23: tags of launch templates."""
    machine = make_machine(generation_api=V1)
    v1 = make_node_class("nodes", generation_api=V1, tags={"team": "blue"})
    assert template_tags(machine, v1, "dev") == {
        "team": "blue",
        "kubernetes.io/cluster/dev": "owned",
        "eks:eks-cluster-name": "dev",
        keys.NODE_CLASS: "nodes",
        keys.NODE_POOL: "default",
    }
    assert template_tags(make_machine(), make_node_class(), "dev") == {
        "kubernetes.io/cluster/dev": "owned",
        "karpenter.k8s.aws/cluster": "dev",
    }


def test_interfaces_that_the_class_lists_are_all_there_is() -> None:
    """EC-14: the primary one first, and it alone has addresses; efa-only carries no IP."""
    made = v1_data(
        network_interfaces=(
            {"networkCardIndex": 1, "deviceIndex": 1, "interfaceType": "efa-only"},
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        ),
        ip_prefix_count=1,
        associate_public_ip=True,
        connection_tracking={"tcpEstablishedTimeout": 350, "udpTimeout": 30},
    )
    tracking = {"TcpEstablishedTimeout": 350, "UdpTimeout": 30}
    assert made["NetworkInterfaces"] == [
        {
            "NetworkCardIndex": 0,
            "DeviceIndex": 0,
            "InterfaceType": "interface",
            "Groups": ["sg-1", "sg-2"],
            "Ipv4PrefixCount": 1,
            "ConnectionTrackingSpecification": tracking,
        },
        {
            "NetworkCardIndex": 1,
            "DeviceIndex": 1,
            "InterfaceType": "efa-only",
            "Groups": ["sg-1", "sg-2"],
        },
    ]


def test_connection_tracking_alone_needs_an_interface() -> None:
    """EC-14: network interfaces and CPU options."""
    (interface,) = v1_data(connection_tracking={"udpStreamTimeout": 60})["NetworkInterfaces"]
    assert interface["ConnectionTrackingSpecification"] == {"UdpStreamTimeout": 60}


def test_adapters_that_pods_ask_for_are_spread_over_the_network_cards() -> None:
    """LCH-21, IT-18: only the first card's interface is device 0."""
    made = v1_data(variant=Variant("ami-1", 100, 3))["NetworkInterfaces"]
    assert [(i["NetworkCardIndex"], i["DeviceIndex"]) for i in made] == [(0, 0), (1, 1), (2, 1)]
    assert {i["InterfaceType"] for i in made} == {"efa"}


def test_the_processor_is_set_as_the_class_says() -> None:
    """EC-14: network interfaces and CPU options."""
    made = v1_data(cpu_options={"nestedVirtualization": "enabled"})
    assert made["CpuOptions"] == {"NestedVirtualization": "enabled"}
    assert "EnclaveOptions" not in made
    assert v1_data(enclave_options={"enabled": True})["EnclaveOptions"] == {"Enabled": True}


def test_pods_that_ask_for_a_sandbox_get_enclaves_unless_the_class_denies_them() -> None:
    """EC-14: a class that says nothing leaves it to the pods."""
    asking = make_machine(requests={NITRO_SANDBOX: 1})
    assert v1_data(asking)["EnclaveOptions"] == {"Enabled": True}
    with pytest.raises(InvalidObject, match="is false, and pods ask for") as refused:
        v1_data(asking, enclave_options={"enabled": False})
    assert refused.value.context["reason"] == "NitroEnclavesDisabled"


@pytest.mark.parametrize(
    ("selector", "placement"),
    [({"name": "rack"}, {"GroupName": "rack"}), ({"id": "pg-1"}, {"GroupId": "pg-1"})],
)
def test_machines_go_into_the_placement_group_of_their_class(
    selector: dict[str, str], placement: dict[str, str]
) -> None:
    """EC-06; a partition where one is planned."""
    assert v1_data(placement_group=selector)["Placement"] == placement
    made = v1_data(requiring(keys.PARTITION, "2"), placement_group=selector)
    assert made["Placement"] == {**placement, "PartitionNumber": 2}
    assert "Placement" not in v1_data(requiring(keys.PARTITION, "2"))


@pytest.mark.parametrize(
    ("prefixes", "own"),
    [(None, {"Ipv6AddressCount": 1}), (2, {"Ipv6PrefixCount": 2})],
)
def test_nodes_of_an_ipv6_cluster_have_an_address_of_its_family(
    prefixes: int | None, own: dict[str, int]
) -> None:
    """EC-14: the first interface has it, and no other; prefixes are of the same family."""
    wanted = Variant("ami-1", efa_interfaces=2)
    found = resolved(generation_api=V1, ip_prefix_count=prefixes)
    for variant, count in ((Variant("ami-1"), 1), (wanted, 2)):
        listed = template_data(MACHINE, found, variant, "", cluster="demo", is_ipv6=True)[
            "NetworkInterfaces"
        ]
        assert len(listed) == count
        assert {**own, "PrimaryIpv6": True}.items() <= listed[0].items()
        assert not any("v6" in name for one in listed[1:] for name in one)
        assert not any("Ipv4" in name for one in listed for name in one)


@pytest.mark.parametrize(
    ("values", "is_dedicated"),
    [(("dedicated",), True), (("default",), False), (("dedicated", "default"), False)],
)
def test_hardware_is_dedicated_only_where_nothing_else_will_do(
    values: tuple[str, ...], is_dedicated: bool
) -> None:
    """LCH-49: tenancy."""
    made = v1_data(requiring(TENANCY, *values))
    assert made.get("Placement") == ({"Tenancy": "dedicated"} if is_dedicated else None)


def test_reservations_are_for_those_who_planned_with_them() -> None:
    """LCH-24: others must not use them up. v1alpha5 has no reservations: EC2 matches open ones as it always did."""
    none = {"CapacityReservationPreference": "none"}
    assert v1_data()["CapacityReservationSpecification"] == none
    planned = v1_data(variant=Variant("ami-1", 29, 0, "cr-1", "default"))
    assert planned["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": "cr-1"},
    }
    assert "InstanceMarketOptions" not in planned
    block = v1_data(variant=Variant("ami-1", 29, 0, "cr-1", "capacity-block"))
    assert block["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    lent = v1_data(variant=Variant("ami-1", 29, 0, "cr-1", "default", interruptible=True))
    assert lent["InstanceMarketOptions"] == {"MarketType": "interruptible-capacity-reservation"}
    gate_off = template_data(
        MACHINE,
        resolved(generation_api=V1),
        Variant("ami-1"),
        "",
        cluster="demo",
        reserved_capacity=False,
    )
    assert "CapacityReservationSpecification" not in gate_off


def kind(name: str, arch: str = "amd64", **changes: Any) -> InstanceType:
    made = make_type(name, labels={keys.ARCH: (arch,)})
    capacity = {**made.capacity, **changes.pop("capacity", {})}
    return replace(made, capacity=capacity, **changes)


def found_variants(machine: Machine, *kinds: InstanceType) -> dict[Variant, frozenset[str]]:
    choices = [Choice(one, one.offerings) for one in kinds]
    return variants(machine, resolved(generation_api=V1), choices)


def test_types_with_the_same_image_and_number_of_pods_share_a_template() -> None:
    """LCH-21: one template per variant."""
    kinds = (
        kind("m5.large"),
        kind("c5.large"),
        kind("m5.xlarge", capacity={"pods": 58}),
        kind("m6g.large", "arm64"),
    )
    assert found_variants(MACHINE, *kinds) == {
        Variant("ami-amd", 58): frozenset({"m5.xlarge"}),
        Variant("ami-amd", 110): frozenset({"m5.large", "c5.large"}),
        Variant("ami-arm", 110): frozenset({"m6g.large"}),
    }


def test_adapters_make_a_difference_only_when_a_pod_asks_for_one() -> None:
    """LCH-21: one template per variant; IT-18: accelerators."""
    kinds = (kind("p4d.24xlarge", capacity={EFA: 4}), kind("c5n.18xlarge", capacity={EFA: 1}))
    assert list(found_variants(MACHINE, *kinds)) == [Variant("ami-amd", 110)]
    asking = make_machine(requests={EFA: 1})
    assert [one.efa_interfaces for one in found_variants(asking, *kinds)] == [1, 4]


def test_each_reservation_has_a_template_of_its_own() -> None:
    """LCH-21: a template names one reservation."""
    offerings = tuple(
        Offering("us-west-2a", keys.RESERVED, 1, name, "default") for name in ("cr-1", "cr-2")
    )
    found = found_variants(MACHINE, kind("m5.large", offerings=offerings))
    assert [one.reservation_id for one in found] == ["cr-1", "cr-2"]


def test_types_without_an_image_are_left_out_and_none_at_all_is_an_error() -> None:
    """LCH-08: the newest image that suits."""
    riscv = kind("r9.large", "riscv64")
    assert list(found_variants(MACHINE, kind("m5.large"), riscv)) == [Variant("ami-amd", 110)]
    with pytest.raises(InvalidObject, match=r"spec\.amiSelectorTerms: no image suits"):
        found_variants(MACHINE, riscv)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=3), max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=3), max_size=3),
)
def test_equal_content_and_only_that_has_an_equal_name(
    one: dict[str, str], other: dict[str, str]
) -> None:
    """LCH-20: kubelet settings, volumes, tags: whatever differs makes another template."""
    assert (template_name("dev", one) == template_name("dev", other)) == (one == other)
    assert (template_name_v1({}, one) == template_name_v1({}, other)) == (one == other)


def tagged(made: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Resource type -> the tags that a template gives it."""
    return {
        one["ResourceType"]: {tag["Key"]: tag["Value"] for tag in one["Tags"]}
        for one in made["TagSpecifications"]
    }


def test_interfaces_are_tagged_by_the_template_in_both_generations() -> None:
    """LCH-56: CreateFleet cannot tag them, and the launcher's role may not make them untagged."""
    user = {"team": "a"}
    today = tagged(v1_data(replace(MACHINE, generation_api=V1), tags=user))
    assert today == {
        "network-interface": {
            "team": "a",
            "kubernetes.io/cluster/demo": "owned",
            "eks:eks-cluster-name": "demo",
            "karpenter.sh/nodepool": "default",
            "karpenter.k8s.aws/ec2nodeclass": "default",
        }
    }
    old = tagged(data(tags=user))["network-interface"]
    assert old["kubernetes.io/cluster/demo"] == "owned"
    assert old["karpenter.sh/provisioner-name"] == "default"
    assert old["team"] == "a"


def test_spot_requests_are_tagged_and_only_where_there_is_one() -> None:
    """EC2 refuses tags of a spot request for on-demand instances."""
    spot = tagged(v1_data(variant=Variant("ami-1", spot=True)))
    assert {*spot} == {"network-interface", "spot-instances-request"}
    assert spot["spot-instances-request"] == spot["network-interface"]


def test_spot_and_on_demand_have_templates_of_their_own() -> None:
    offered = kind("m5.large").offerings
    sold_as_spot = tuple(replace(one, capacity_type=keys.SPOT) for one in offered)
    (spot,) = found_variants(MACHINE, kind("m5.large", offerings=sold_as_spot))
    (on_demand,) = found_variants(MACHINE, kind("m5.large"))
    assert (spot.spot, on_demand.spot) == (True, False)


def test_the_order_of_the_users_tags_makes_no_other_template() -> None:
    """LCH-20: names of launch templates."""
    one, other = v1_data(tags={"a": "1", "b": "2"}), v1_data(tags={"b": "2", "a": "1"})
    assert template_name_v1(one, {}) == template_name_v1(other, {})
