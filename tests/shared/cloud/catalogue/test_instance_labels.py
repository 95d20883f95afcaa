"""Labels of instance types (IT-40..46)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.types import INSTANCE_NAME, Offering
from shared.domain.labels import WELL_KNOWN

Build = Callable[..., Any]
AWS = "karpenter.k8s.aws/"


def aws_labels(one: Any) -> dict[str, str]:
    """The AWS labels with one value, without their prefix."""
    return {
        key.removeprefix(AWS): values[0]
        for key, values in one.labels.items()
        if key.startswith(AWS) and len(values) == 1
    }


def test_c5a_large_carries_the_labels_of_the_seed(build: Build) -> None:
    """IT-46: labels of a c5a.large."""
    expected = {
        "instance-category": "c",
        "instance-cpu": "2",
        "instance-encryption-in-transit-supported": "true",
        "instance-family": "c5a",
        "instance-generation": "5",
        "instance-hypervisor": "nitro",
        "instance-memory": "4096",
        "instance-pods": "29",
        "instance-size": "large",
    }
    assert expected.items() <= aws_labels(build("c5a.large")).items()


def test_kubernetes_labels_and_offerings_are_filled_in(build: Build) -> None:
    """IT-40: labels of Kubernetes; IT-41: capacity type and zone id."""
    offerings = (Offering("us-west-2b", "spot", 10), Offering("us-west-2a", "on-demand", 20))
    labels = build("m6g.large", offerings=offerings).labels
    assert labels["kubernetes.io/arch"] == ("arm64",)
    assert labels["kubernetes.io/os"] == ("linux",)
    assert labels["node.kubernetes.io/instance-type"] == ("m6g.large",)
    assert labels["topology.kubernetes.io/region"] == ("us-west-2",)
    assert labels["topology.kubernetes.io/zone"] == ("us-west-2a", "us-west-2b")
    assert labels["topology.k8s.aws/zone-id"] == ("usw2-az1", "usw2-az2")
    assert labels["karpenter.sh/capacity-type"] == ("on-demand", "spot")


def test_a_label_without_a_value_is_absent(build: Build) -> None:
    """IT-45: absent is DoesNotExist, so ``instance-gpu-count Exists`` is a filter."""
    labels = build("c5a.large").labels
    absent = ["instance-gpu-count", "instance-accelerator-name", "instance-local-nvme"]
    assert not {AWS + key for key in absent} & labels.keys()
    assert "node.kubernetes.io/windows-build" not in labels
    assert "topology.kubernetes.io/zone" not in labels


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "g4dn.xlarge",
            {
                "instance-gpu-name": "t4",
                "instance-gpu-manufacturer": "nvidia",
                "instance-gpu-count": "1",
                "instance-gpu-memory": "16384",
                "instance-local-nvme": "125",
                "instance-network-bandwidth": "5000",
            },
        ),
        (
            "inf1.xlarge",
            {
                "instance-accelerator-name": "inferentia",
                "instance-accelerator-manufacturer": "aws",
                "instance-accelerator-count": "1",
            },
        ),
        ("m5d.metal", {"instance-hypervisor": "", "instance-cpu-manufacturer": "intel"}),
        ("m6g.large", {"instance-cpu-manufacturer": "aws"}),
        ("c5a.large", {"instance-ebs-bandwidth": "3170", "instance-capability-flex": "false"}),
        ("m7i-flex.large", {"instance-capability-flex": "true", "instance-generation": "7"}),
        ("c5a.large", {"instance-cpu-sustained-clock-speed-mhz": "3300"}),
    ],
)
def test_hardware_is_described(build: Build, name: str, expected: dict[str, str]) -> None:
    """IT-42: labels of an instance's size; IT-43: labels of accelerators."""
    assert expected.items() <= aws_labels(build(name)).items()


def test_tenancy_is_a_choice(build: Build) -> None:
    """IT-42: labels of an instance's size."""
    assert build("m5.large").labels[AWS + "instance-tenancy"] == ("dedicated", "default")


def test_windows_nodes_carry_their_build(build: Build) -> None:
    """IT-40: labels of Kubernetes."""
    labels = build("m5.large", sizes=SizeSettings(platform="Windows2019")).labels
    assert labels["node.kubernetes.io/windows-build"] == ("10.0.17763",)
    assert labels["kubernetes.io/os"] == ("windows",)


@pytest.mark.parametrize(
    ("name", "category", "generation"),
    [
        ("m5.large", "m", "5"),
        ("u-6tb1.metal", "u", "1"),
        ("p4de.24xlarge", "p", "4"),
        ("m8g.metal-48xl", "m", "8"),
        ("c6in.32xlarge", "c", "6"),
    ],
)
def test_category_and_generation_come_from_the_name(
    name: str, category: str, generation: str
) -> None:
    """IT-03: parts of a type's name."""
    match = INSTANCE_NAME.match(name)
    assert match is not None
    assert (match[1], match[3]) == (category, generation)


def test_every_known_type_builds_with_known_keys_and_one_value_each(
    build: Build, instance_types: dict[str, Any]
) -> None:
    models = [model for model in (build(name) for name in instance_types) if model]
    assert len(models) > 1000
    for model in models:
        assert model.labels.keys() <= WELL_KNOWN, model.name
        assert all(values for values in model.labels.values()), model.name
        assert all(isinstance(v, int) and v >= 0 for v in model.capacity.values()), model.name
        assert all(isinstance(v, int) and v >= 0 for v in model.overhead.values()), model.name
