"""Launch templates by content (LCH-20..LCH-24) and the labels of the first boot (LCH-37)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.node_classes import Resolved
from services.launcher.templates import (
    boot_labels,
    dns_address,
    template_data,
    template_name,
    template_name_v1,
    template_tags,
)
from shared.cloud.records import SecurityGroup, Subnet
from shared.cloud.session import Cloud
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.nodepools import V1
from shared.errors import InvalidObject
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from tests.services.conftest import CLUSTER, Control, create_node_claim, create_node_class
from tests.services.launcher.conftest import Launcher
from tests.support.builders import ZONES, make_machine, make_node_class

KEY = "arn:aws:kms:ap-northeast-2:111122223333:key/6f29df3a"


def resolved(**node_class: Any) -> Resolved:
    groups = (SecurityGroup("sg-2", "b"), SecurityGroup("sg-1", "a"))
    return Resolved(make_node_class(**node_class), (), groups, {"amd64": "ami-1"})


def data(**node_class: Any) -> dict[str, Any]:
    return template_data(resolved(**node_class), "ami-1", "Profile", "#!/bin/sh")


def test_the_same_data_has_the_same_name_whatever_its_order() -> None:
    """LCH-20 [5]."""
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
    """LCH-24, T-08, T-09."""
    made = data()
    assert made["ImageId"] == "ami-1"
    assert base64.b64decode(made["UserData"]) == b"#!/bin/sh"
    assert made["SecurityGroupIds"] == ["sg-1", "sg-2"]
    assert made["IamInstanceProfile"] == {"Name": "Profile"}
    assert made["Monitoring"] == {"Enabled": False}
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


def test_the_volume_of_the_seed_is_asked_for_as_written() -> None:
    """Scenario 23, seed 002."""
    ebs = {
        "volumeSize": "30Gi",
        "volumeType": "gp3",
        "iops": 3000,
        "throughput": 125,
        "encrypted": True,
        "kmsKeyID": KEY,
        "deleteOnTermination": True,
    }
    made = data(
        block_device_mappings=({"deviceName": "/dev/xvda", "ebs": ebs},), detailed_monitoring=True
    )
    assert made["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {
                "VolumeSize": 30,
                "VolumeType": "gp3",
                "Iops": 3000,
                "Throughput": 125,
                "Encrypted": True,
                "KmsKeyId": KEY,
                "DeleteOnTermination": True,
            },
        }
    ]
    assert made["Monitoring"] == {"Enabled": True}


@pytest.mark.parametrize(
    ("text", "gib"), [("30Gi", 30), ("1500Mi", 2), ("1G", 1), ("1Ti", 1024), ("20G", 19)]
)
def test_sizes_are_rounded_up_to_whole_gib(text: str, gib: int) -> None:
    """LCH-24."""
    volume = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": text}}
    (mapping,) = data(block_device_mappings=(volume,))["BlockDeviceMappings"]
    assert mapping["Ebs"]["VolumeSize"] == gib


def test_a_size_that_is_none_names_its_field() -> None:
    volumes = ({"deviceName": "a", "ebs": {}}, {"deviceName": "b", "ebs": {"volumeSize": "big"}})
    with pytest.raises(InvalidObject, match=r"blockDeviceMappings\[1\]\.ebs\.volumeSize"):
        data(block_device_mappings=volumes)


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


def test_a_custom_image_keeps_its_own_devices() -> None:
    """Its root device may be another; a mapping would add a disk."""
    assert "BlockDeviceMappings" not in data(ami_family="Custom")
    volume = {"deviceName": "/dev/sda1", "ebs": {"volumeSize": "30Gi"}}
    assert data(ami_family="Custom", block_device_mappings=(volume,))["BlockDeviceMappings"]


def test_a_snapshot_may_be_loaded_at_a_rate() -> None:
    """EC-12."""
    ebs = {"snapshotID": "snap-1", "volumeInitializationRate": 200}
    volume = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": ebs}
    assert data(block_device_mappings=(volume,))["BlockDeviceMappings"] == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"SnapshotId": "snap-1", "VolumeInitializationRate": 200},
        }
    ]


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
    """LCH-23."""
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


def test_the_first_dns_address_is_an_argument_of_the_boot_script() -> None:
    """LCH-30, P-20."""
    assert dns_address({"clusterDNS": ["10.0.0.10", "10.0.0.11"]}) == "10.0.0.10"
    assert dns_address({"clusterDNS": []}) is None
    assert dns_address({}) is None


async def test_ec2_starts_a_nodeclaim_from_what_its_class_says(
    kube: Kube, cloud: Cloud, start: Callable[[], Launcher], control: Control
) -> None:
    """EC-08, EC-10, EC-21, IT-13, LCH-23: role, addresses and kubelet of the class; the emulator checks the profile."""
    kubelet = {"clusterDNS": ["10.0.0.10"], "maxPods": 20, "podsPerCore": 8}
    await create_node_class(kube, associatePublicIPAddress=False, kubelet=kubelet)
    await create_node_claim(kube)
    await start().launch.launch("NodeClaim/default-c")
    (instance,) = control.instances()
    assert instance["tags"][keys.NODE_CLASS] == "default"
    (template,) = await cloud.ec2.launch_templates({keys.NODE_CLASS: "default"})
    assert template.tags[keys.NODE_POOL] == "default"
    sent = created(control, template.name)
    assert sent["IamInstanceProfile"]["Name"].startswith(f"{CLUSTER}_")
    assert sent["NetworkInterfaces"][0]["AssociatePublicIpAddress"] is False
    user_data = base64.b64decode(sent["UserData"]).decode()
    assert "kind: NodeConfig" in user_data
    for text in ("10.0.0.10", "karpenter.sh/nodepool=default", keys.UNREGISTERED_TAINT_KEY):
        assert text in user_data
    assert "maxPods: 16" in user_data
    status = (await kube.get(NODE_CLAIMS, "default-c"))["status"]
    assert (status["capacity"]["pods"], status["allocatable"]["pods"]) == ("16", "16")


def created(control: Control, name: str) -> dict[str, Any]:
    """The data of a template as it was sent to EC2."""
    (call,) = (
        call["parameters"]
        for call in control.get("calls?action=CreateLaunchTemplate")["calls"]
        if call["parameters"]["LaunchTemplateName"] == name
    )
    data: dict[str, Any] = call["LaunchTemplateData"]
    return data


def test_the_kubelet_sets_the_labels_it_may_set() -> None:
    """LCH-37: decided requirements and own labels; what the kubelet knows better is left to it."""
    machine = make_machine(
        labels={keys.PROVISIONER_NAME: "default", "team": "blue", "sub.k8s.io/secret": "x"},
        requirements=(
            Expression(keys.CAPACITY_TYPE, "In", (keys.SPOT,)),
            Expression(keys.ARCH, "In", ("amd64",)),
            Expression(keys.ZONE, "In", (ZONES[0],)),
            Expression(keys.INSTANCE_TYPE, "In", ("m5.large",)),
            Expression("size", "In", ("a", "b")),
        ),
    )
    labels = boot_labels(machine)
    assert labels[keys.CAPACITY_TYPE] == keys.SPOT
    assert labels[keys.PROVISIONER_NAME] == "default"
    assert labels["team"] == "blue"
    assert not {keys.ARCH, keys.ZONE, keys.INSTANCE_TYPE, "sub.k8s.io/secret"} & set(labels)


def test_of_each_zone_the_subnet_with_most_free_addresses_is_taken() -> None:
    """LCH-11."""
    subnets = (
        Subnet("subnet-1", "a", "", 10),
        Subnet("subnet-2", "a", "", 200),
        Subnet("subnet-3", "b", "", 5),
    )
    found = Resolved(make_node_class(), subnets, (), {})
    assert found.subnet_by_zone() == {"a": "subnet-2", "b": "subnet-3"}
