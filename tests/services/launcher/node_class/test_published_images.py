"""The images that each family publishes, and for which instance types (LCH-02..08, EC-17)."""

from __future__ import annotations

import pytest

from local.aws.ec2.images import image_for
from services.launcher.node_class.published_images import (
    ACCELERATOR_COUNT,
    ARCHITECTURES,
    GPU_COUNT,
    Published,
    check_supported,
    published,
)
from shared.domain import labels as keys
from shared.domain.requirements import Requirements
from shared.errors import InvalidObject

K8S = "1.32"
EKS = "/aws/service/eks/optimized-ami/1.32"


def by_path(family: str, release: str = "latest") -> dict[str, list[str]]:
    """Path -> what types the image suits, in words."""
    return {one.path: [str(kind) for kind in one.kinds] for one in published(family, release, K8S)}


def words(**changes: str) -> str:
    """``gpu="Exists"`` -> as a requirement prints."""
    keys_of = {"gpu": GPU_COUNT, "accelerator": ACCELERATOR_COUNT}
    return ", ".join(f"{keys_of[name]} {text}" for name, text in sorted(changes.items()))


STANDARD = words(gpu="DoesNotExist", accelerator="DoesNotExist")
NVIDIA, NEURON = words(gpu="Exists"), words(accelerator="Exists")


@pytest.mark.parametrize(
    ("family", "release"),
    [
        ("AL2", "latest"), ("AL2", "v20240703"), ("AL2023", "latest"), ("AL2023", "v20240703"),
        ("Bottlerocket", "latest"), ("Bottlerocket", "v1.20.3"), ("Windows2019", "latest"),
        ("Windows2022", "latest"), ("Ubuntu", "latest"),
    ],
)  # fmt: skip
def test_every_parameter_holds_a_published_image(family: str, release: str) -> None:
    """LCH-02..07: as the emulator, which was written from the makers' lists, publishes them."""
    found = published(family, release, K8S)
    assert len({one.path for one in found}) == len(found) > 0
    for one in found:
        image = image_for(one.path)
        assert image is not None, one.path
        assert image.architecture in ARCHITECTURES.values()
        assert release == "latest" or release.removeprefix("v") in image.name


def test_amazon_linux_2_has_one_image_for_all_accelerators() -> None:
    """LCH-02: paths of AL2 images."""
    assert by_path("AL2") == {
        f"{EKS}/amazon-linux-2/recommended/image_id": [STANDARD],
        f"{EKS}/amazon-linux-2-arm64/recommended/image_id": [STANDARD],
        f"{EKS}/amazon-linux-2-gpu/recommended/image_id": [NVIDIA, NEURON],
    }


def test_amazon_linux_2023_has_one_image_for_each_accelerator() -> None:
    """LCH-03: paths of AL2023 images."""
    root = f"{EKS}/amazon-linux-2023"
    assert by_path("AL2023") == {
        f"{root}/x86_64/standard/recommended/image_id": [STANDARD],
        f"{root}/arm64/standard/recommended/image_id": [STANDARD],
        f"{root}/x86_64/nvidia/recommended/image_id": [NVIDIA],
        f"{root}/arm64/nvidia/recommended/image_id": [NVIDIA],
        f"{root}/x86_64/neuron/recommended/image_id": [NEURON],
    }


def test_bottlerocket_has_an_nvidia_variant() -> None:
    """LCH-04: paths of Bottlerocket images; LCH-07: a pinned version of an image."""
    found = by_path("Bottlerocket", "v1.20.3")
    assert found["/aws/service/bottlerocket/aws-k8s-1.32/arm64/1.20.3/image_id"] == [STANDARD]
    plain = "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/1.20.3/image_id"
    assert found[plain] == [STANDARD, NEURON], "the NVIDIA variant has no Neuron driver"
    nvidia = "/aws/service/bottlerocket/aws-k8s-1.32-nvidia/x86_64/1.20.3/image_id"
    assert found[nvidia] == [NVIDIA]
    assert len(found) == 4


def test_a_pinned_release_has_the_path_of_that_release() -> None:
    """LCH-07: a pinned version of an image."""
    assert f"{EKS}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.32-v20240703/image_id" in by_path(
        "AL2", "v20240703"
    )
    pinned = "amazon-eks-node-al2023-x86_64-neuron-1.32-v20240703"
    assert f"{EKS}/amazon-linux-2023/x86_64/neuron/{pinned}/image_id" in by_path(
        "AL2023", "v20240703"
    )


def test_windows_images_suit_nodes_of_their_build() -> None:
    """LCH-05: paths of Windows images; LCH-08: the newest image that suits."""
    (found,) = published("Windows2022", "latest", K8S)
    name = "Windows_Server-2022-English-Core-EKS_Optimized-1.32"
    assert found.path == f"/aws/service/ami-windows-latest/{name}/image_id"
    (kind,) = found.kinds
    assert kind.labels() == {keys.OS: "windows", keys.WINDOWS_BUILD: "10.0.20348"}
    assert image_for(published("Windows2025", "latest", "1.34")[0].path) is None
    assert image_for(published("Windows2025", "latest", "1.35")[0].path) is not None


def test_ubuntu_has_an_image_per_architecture() -> None:
    """LCH-06: paths of Ubuntu images."""
    stable = "/aws/service/canonical/ubuntu/eks/20.04/1.32/stable/current"
    assert published("Ubuntu", "latest", K8S) == [
        Published(f"{stable}/{arch}/hvm/ebs-gp2/ami-id", (Requirements(),))
        for arch in ("amd64", "arm64")
    ]


def test_custom_images_are_not_published() -> None:
    assert published("Custom", "latest", K8S) == []


@pytest.mark.parametrize(
    ("family", "k8s", "refused"),
    [
        ("AL2", "1.32", False), ("AL2", "1.33", True), ("AL2023", "1.33", False),
        ("Windows2025", "1.34", True), ("Windows2025", "1.35", False), ("AL2", "unknown", False),
    ],
)  # fmt: skip
def test_an_alias_that_this_kubernetes_has_no_images_for_is_unsupported(
    family: str, k8s: str, refused: bool
) -> None:
    """EC-17: reasons of conditions."""
    if not refused:
        check_supported(family, k8s, "field")
        return
    with pytest.raises(InvalidObject) as raised:
        check_supported(family, k8s, "field")
    assert raised.value.context["reason"] == "UnsupportedAlias"
