"""Capacity and reservations of nodes (EKS bootstrap, Karpenter's memory overhead), and pod
requests.
"""

from __future__ import annotations

import pytest

from local.aws.ec2.images import image_for, published_parameters
from local.cluster.kubelet.images import system_of
from local.cluster.kubelet.node_objects import fixed_instance, node_labels
from local.cluster.kubelet.node_resources import memory_capacity_mib, reserved_milli_cpu
from local.cluster.scheduling.quantities import amount, pod_requests
from shared.errors import InvalidObject


@pytest.mark.parametrize(
    ("vcpus", "reserved"), [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (96, 310)]
)
def test_eks_reserves_cpu_in_bands(vcpus: int, reserved: int) -> None:
    assert reserved_milli_cpu(vcpus) == reserved


def test_memory_that_the_hypervisor_keeps() -> None:
    assert memory_capacity_mib(8192, "x86_64") == 7577
    assert memory_capacity_mib(8192, "arm64") == 7518


@pytest.mark.parametrize(
    ("resource", "text", "value"),
    [
        ("cpu", "0.25", 250),
        ("cpu", "1500u", 2),
        ("cpu", "2", 2000),
        ("memory", "1Gi", 2**30),
        ("memory", "128974848", 128974848),
        ("memory", "1e3", 1000),
        ("memory", "1.5k", 1500),
        ("pods", "110", 110),
    ],
)
def test_quantities_become_integers(resource: str, text: str, value: int) -> None:
    assert amount(resource, text) == value


@pytest.mark.parametrize("text", ["", "abc", "1Q", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(InvalidObject, match="is not a quantity"):
        amount("cpu", text)


def test_init_containers_sidecars_and_overhead_count_as_in_kubernetes() -> None:
    """KEP-753: a sidecar adds to the containers and to every later init container."""

    def container(cpu: str, **more: str) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("100m"), container("200m")],
        "initContainers": [container("50m", restartPolicy="Always"), container("400m")],
        "overhead": {"cpu": "10m"},
    }
    assert pod_requests(spec) == {"cpu": 460, "pods": 1}


def test_a_node_has_the_labels_of_old_beside_those_of_today() -> None:
    """Manifests still select by them, and the planner takes both for one."""
    labels = node_labels(fixed_instance(0, "us-west-2", 0.0))
    assert labels["beta.kubernetes.io/arch"] == labels["kubernetes.io/arch"] == "amd64"
    assert labels["beta.kubernetes.io/os"] == "linux"
    assert labels["beta.kubernetes.io/instance-type"] == "m5.large"
    assert labels["failure-domain.beta.kubernetes.io/zone"] == "us-west-2a"
    assert labels["failure-domain.beta.kubernetes.io/region"] == "us-west-2"


@pytest.mark.parametrize(
    ("parameter", "image", "kernel"),
    [
        ("amazon-linux-2023/arm64/standard/recommended", "Amazon Linux 2023", "aarch64"),
        ("amazon-linux-2-gpu/recommended", "Amazon Linux 2", "amzn2.x86_64"),
        ("aws-k8s-1.30-nvidia/arm64/latest", "Bottlerocket OS 1.50.0 (aws-k8s-1.30-nvidia)", "6."),
        ("Windows_Server-2019-English-Core", "Windows Server 2019 Datacenter", "10.0.17763"),
        ("ubuntu/eks/20.04", "Ubuntu 20.04 LTS", "aws"),
    ],
)
def test_a_node_reports_its_image(parameter: str, image: str, kernel: str) -> None:
    """By the names under which the emulator publishes them: a drift to another image shows."""
    (name, *_) = (one for one in published_parameters("1.30") if parameter in one)
    published = image_for(name)
    assert published is not None
    system = system_of(published.name, published.architecture, published.platform or "linux")
    assert system.image == image
    assert kernel in system.kernel
    assert system.kubelet == "v1.30.4-eks"


def test_every_published_image_is_known_and_any_other_is_of_the_cluster_s_version() -> None:
    for parameter in published_parameters("1.35"):
        published = image_for(parameter)
        assert published is not None
        assert system_of(published.name, published.architecture, "").kubelet == "v1.35.4-eks"
    assert system_of("golden", "x86_64", "linux").kubelet == "v1.32.4-eks"
    assert "Windows" in system_of("golden", "x86_64", "windows").image
