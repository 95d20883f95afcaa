"""Capacity and reservations of nodes (EKS bootstrap, Karpenter's memory overhead), and pod
requests.
"""

from __future__ import annotations

import pytest

from local.cluster.kubelet.node_objects import memory_capacity_mib, reserved_milli_cpu
from local.cluster.scheduling.quantities import amount, pod_requests


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
    with pytest.raises(ValueError, match="is not a quantity"):
        amount("cpu", text)


def test_init_containers_sidecars_and_overhead_count_as_kubernetes_says() -> None:
    """KEP-753: a sidecar adds to the containers and to every later init container."""

    def container(cpu: str, **more: str) -> dict[str, object]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("100m"), container("200m")],
        "initContainers": [container("50m", restartPolicy="Always"), container("400m")],
        "overhead": {"cpu": "10m"},
    }
    assert pod_requests(spec) == {"cpu": 460, "pods": 1}
