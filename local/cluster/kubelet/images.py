"""The node information of a booted image: system, kernel, runtime and kubelet, derived from the name of the image.

Names are the published ones of EKS, Bottlerocket, Windows and Ubuntu images. An image with another name counts as
Amazon Linux 2023, or Windows 2022, of the cluster's own version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

CLUSTER_VERSION = "1.32"
RUNTIME = "containerd://1.7.27"
_AL2023 = re.compile(r"amazon-eks-node-al2023-.*-(?P<version>1\.\d\d)-v\d{8}")
_AL2 = re.compile(r"amazon-eks(-arm64|-gpu)?-node-(?P<version>1\.\d\d)-v\d{8}")
_BOTTLEROCKET = re.compile(
    r"bottlerocket-(?P<variant>aws-k8s-(?P<version>1\.\d\d)[a-z-]*)-(x86_64|arm64)-v(?P<release>[\d.]+)"
)
_WINDOWS = re.compile(
    r"Windows_Server-(?P<year>\d{4})-English-(Core|Full)-EKS_Optimized-(?P<version>1\.\d\d)-.*"
)
_UBUNTU = re.compile(r"ubuntu-eks/k8s_(?P<version>1\.\d\d)/images/.*-(?P<release>\d\d\.\d\d)-.*")
_WINDOWS_BUILDS = {"2019": "10.0.17763.7314", "2022": "10.0.20348.2966", "2025": "10.0.26100.3775"}


@dataclass(frozen=True)
class NodeSystem:
    """The fields of ``status.nodeInfo``."""

    image: str
    kernel: str
    kubelet: str
    runtime: str = RUNTIME


def kubelet_version(version: str) -> str:
    """The kubelet version of an image for Kubernetes ``version``, such as 1.32."""
    return f"v{version}.4-eks"


_FAMILIES = (
    (_AL2023, "Amazon Linux 2023", "6.1.134-150.224.amzn2023.{machine}", RUNTIME),
    (_AL2, "Amazon Linux 2", "5.10.235-227.919.amzn2.{machine}", RUNTIME),
    (_BOTTLEROCKET, "Bottlerocket OS {release} ({variant})", "6.1.134", f"{RUNTIME}+bottlerocket"),
    (_WINDOWS, "Windows Server {year} Datacenter", "{build}", RUNTIME),
    (_UBUNTU, "Ubuntu {release} LTS", "5.15.0-1084-aws", RUNTIME),
)
"""Names of images, and system, kernel and runtime of each."""


def system_of(image_name: str, machine: str, operating_system: str) -> NodeSystem:
    """The system of the image; ``machine`` is x86_64 or arm64."""
    for pattern, image, kernel, runtime in _FAMILIES:
        match = pattern.fullmatch(image_name)
        if match is not None:
            parts = {"machine": "aarch64" if machine == "arm64" else machine, **match.groupdict()}
            parts["build"] = _WINDOWS_BUILDS.get(parts.get("year", ""), _WINDOWS_BUILDS["2022"])
            kubelet = kubelet_version(parts["version"])
            return NodeSystem(image.format(**parts), kernel.format(**parts), kubelet, runtime)
    kubelet = kubelet_version(CLUSTER_VERSION)
    if operating_system == "windows":
        return NodeSystem("Windows Server 2022 Datacenter", _WINDOWS_BUILDS["2022"], kubelet)
    return NodeSystem("Amazon Linux 2023", "6.1.134-150.224.amzn2023", kubelet)
