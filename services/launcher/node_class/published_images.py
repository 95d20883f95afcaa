"""Images that their makers publish: the SSM paths of each family, and which instance types each image suits. Pure.

A family has one image per architecture, and others for types with GPUs or Neuron devices (LCH-02..07). What may go
wrong: an alias whose family ended with an older Kubernetes, or begins with a newer one: ``InvalidObject``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shared.domain import labels as keys
from shared.domain.instance_types.size_settings import WINDOWS_BUILDS
from shared.domain.requirements import Requirement, Requirements
from shared.errors import InvalidObject

UNSUPPORTED_ALIAS = "UnsupportedAlias"
LATEST = "latest"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
"""Kubernetes' word -> EC2's."""
GPU_COUNT = keys.AWS_PREFIX + "instance-gpu-count"
ACCELERATOR_COUNT = keys.AWS_PREFIX + "instance-accelerator-count"
_LAST_AL2, _FIRST_WINDOWS2025 = 32, 35
"""Minor versions of Kubernetes."""


def _absent(key: str) -> Requirement:
    return Requirement(key, False)


def _present(key: str) -> Requirement:
    return Requirement(key, True)


STANDARD = Requirements([_absent(GPU_COUNT), _absent(ACCELERATOR_COUNT)])
NVIDIA = Requirements([_present(GPU_COUNT)])
NEURON = Requirements([_present(ACCELERATOR_COUNT)])
ANY_DEVICES = Requirements()
"""What a label of an instance type must be for an image to suit it, beside the architecture (LCH-08)."""


class Published(NamedTuple):
    """One SSM parameter that holds an image's id. The image suits a type that has any of ``kinds``."""

    path: str
    kinds: tuple[Requirements, ...]


def published(family: str, release: str, k8s: str) -> list[Published]:
    """The parameters of one release of a family, for one Kubernetes version (LCH-02..07).

    ``release``: ``latest``, or a published version such as ``v20240703``; Windows and Ubuntu publish their newest
    image only. Empty for a family without published images (Custom).
    """
    if family in WINDOWS_BUILDS:
        return [_windows(family, k8s)]
    paths = {"AL2": _al2, "AL2023": _al2023, "Bottlerocket": _bottlerocket, "Ubuntu": _ubuntu}
    return list(paths[family](release, k8s)) if family in paths else []


def _al2(release: str, k8s: str) -> Iterator[Published]:
    kinds = {"": (STANDARD,), "-arm64": (STANDARD,), "-gpu": (NVIDIA, NEURON)}
    for suffix, suits in kinds.items():
        named = "recommended" if release == LATEST else f"amazon-eks{suffix}-node-{k8s}-{release}"
        yield Published(f"{_eks(k8s)}/amazon-linux-2{suffix}/{named}/image_id", suits)


def _al2023(release: str, k8s: str) -> Iterator[Published]:
    variants = [(arch, kind, suits) for kind, suits in (("standard", STANDARD), ("nvidia", NVIDIA))
                for arch in ARCHITECTURES.values()]  # fmt: skip
    # No Neuron device sits in an arm64 machine.
    for arch, kind, suits in [*variants, ("x86_64", "neuron", NEURON)]:
        named = f"amazon-eks-node-al2023-{arch}-{kind}-{k8s}-{release}"
        named = "recommended" if release == LATEST else named
        yield Published(f"{_eks(k8s)}/amazon-linux-2023/{arch}/{kind}/{named}/image_id", (suits,))


def _eks(k8s: str) -> str:
    return f"/aws/service/eks/optimized-ami/{k8s}"


def _bottlerocket(release: str, k8s: str) -> Iterator[Published]:
    version = LATEST if release == LATEST else release.removeprefix("v")
    for variant in ("", "-nvidia"):
        for arch in ARCHITECTURES.values():
            plain = (STANDARD, NEURON) if arch == "x86_64" else (STANDARD,)
            suits = (NVIDIA,) if variant else plain
            path = f"/aws/service/bottlerocket/aws-k8s-{k8s}{variant}/{arch}/{version}/image_id"
            yield Published(path, suits)


def _ubuntu(_release: str, k8s: str) -> Iterator[Published]:
    stable = f"/aws/service/canonical/ubuntu/eks/20.04/{k8s}/stable/current"
    for arch in ARCHITECTURES:
        yield Published(f"{stable}/{arch}/hvm/ebs-gp2/ami-id", (ANY_DEVICES,))


def _windows(family: str, k8s: str) -> Published:
    year = family.removeprefix("Windows")
    name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{k8s}"
    suits = Requirements(
        [
            Requirement(keys.OS, False, frozenset({"windows"})),
            Requirement(keys.WINDOWS_BUILD, False, frozenset({WINDOWS_BUILDS[family]})),
        ]
    )
    return Published(f"/aws/service/ami-windows-latest/{name}/image_id", (suits,))


def check_supported(family: str, k8s: str, field: str) -> None:
    """EC-17 UnsupportedAlias. Raises InvalidObject."""
    minor = int(k8s.rpartition(".")[2]) if k8s.rpartition(".")[2].isdigit() else None
    if minor is None:
        return
    if family == "AL2" and minor > _LAST_AL2:
        text = f"AWS publishes no AL2 image for Kubernetes {k8s}; use al2023"
    elif family == "Windows2025" and minor < _FIRST_WINDOWS2025:
        text = f"Windows 2025 needs Kubernetes 1.{_FIRST_WINDOWS2025}, the cluster has {k8s}"
    else:
        return
    raise InvalidObject(text, field=field, reason=UNSUPPORTED_ALIAS)
