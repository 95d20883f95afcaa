"""Launch templates by content (LCH-20..LCH-24) and the labels of the first boot (LCH-37)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.node_classes import Resolved
from services.launcher.templates import boot_labels, template_data, template_name
from shared.cloud.records import SecurityGroup, Subnet
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.errors import InvalidObject
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
