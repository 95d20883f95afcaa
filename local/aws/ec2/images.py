"""EKS, Bottlerocket, Windows and Ubuntu images: the published SSM parameter names and the AMI of each (LCH-02 to 07).

Ids are a hash of the name, so they are the same in every run. Names, owners and descriptions have the
published forms; dates are fixed.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime

EKS_OWNER = "602401143452"
BOTTLEROCKET_OWNER = "149721548608"
WINDOWS_OWNER = "801119661308"
CANONICAL_OWNER = "099720109477"
RECOMMENDED_DATE = "20260101"
BOTTLEROCKET_VERSION = "1.50.0"
"""What ``latest`` is. Every version of 1.x counts as published: manifests may pin newer ones than we know."""
FIRST_AL2_DATE = "20180605"
FIRST_AL2023_DATE = "20230315"
LAST_DATE = "20281231"
"""Every day from the first to this one counts as a release. The makers' lists of days are not kept here, and manifests
may pin newer ones than ``RECOMMENDED_DATE``."""
KUBERNETES_VERSIONS = tuple(f"1.{minor}" for minor in range(28, 36))
LAST_AL2_MINOR = 32
"""EKS publishes no Amazon Linux 2 image for Kubernetes versions above 1.32."""

FIRST_WINDOWS_2025_MINOR = 35
"""EKS publishes no Windows 2025 image for Kubernetes versions below 1.35."""

EKS_PREFIX = "/aws/service/eks/optimized-ami/"
BOTTLEROCKET_PREFIX = "/aws/service/bottlerocket/"
WINDOWS_PREFIX = "/aws/service/ami-windows-latest/"
UBUNTU_PREFIX = "/aws/service/canonical/ubuntu/eks/20.04/"

AL2 = re.compile(
    EKS_PREFIX + r"(?P<version>1\.\d\d)/amazon-linux-2(?P<variant>-arm64|-gpu|)/"
    r"(?P<release>recommended|amazon-eks-[a-z0-9-]*node-[0-9.]+-v\d{8})/image_id"
)
AL2023 = re.compile(
    EKS_PREFIX + r"(?P<version>1\.\d\d)/amazon-linux-2023/(?P<architecture>x86_64|arm64)/"
    r"(?P<variant>standard|nvidia|neuron)/"
    r"(?P<release>recommended|amazon-eks-node-al2023-[a-z0-9_.-]+-v\d{8})/image_id"
)
BOTTLEROCKET = re.compile(
    BOTTLEROCKET_PREFIX + r"aws-k8s-(?P<version>1\.\d\d)(?P<variant>-nvidia|)/"
    r"(?P<architecture>x86_64|arm64)/(?P<release>latest|1(\.(0|[1-9]\d?)){2})/image_id"
)
WINDOWS = re.compile(
    WINDOWS_PREFIX + r"(?P<name>Windows_Server-(?P<year>2019|2022|2025)-English-Core-EKS_Optimized-"
    r"(?P<version>1\.\d\d))/image_id"
)
UBUNTU = re.compile(
    UBUNTU_PREFIX + r"(?P<version>1\.\d\d)/stable/current/(?P<architecture>amd64|arm64)"
    r"/hvm/ebs-gp2/ami-id"
)


@dataclass(frozen=True, slots=True)
class PublishedImage:
    """One AMI as DescribeImages shows it."""

    parameter: str
    name: str
    description: str
    architecture: str
    owner_id: str
    root_device: str
    created: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    platform: str | None = None
    """``windows``, or empty."""
    root_gib: int = 15
    """Size of the root volume's snapshot."""

    @property
    def image_id(self) -> str:
        """A hash of the name."""
        return "ami-" + hashlib.sha256(self.name.encode()).hexdigest()[:17]


def image_for(parameter: str) -> PublishedImage | None:
    """The image of an SSM parameter name, or None when no such parameter is published."""
    builders = (
        (AL2023, _al2023),
        (AL2, _al2),
        (BOTTLEROCKET, _bottlerocket),
        (WINDOWS, _windows),
        (UBUNTU, _ubuntu),
    )
    for pattern, build in builders:
        match = pattern.fullmatch(parameter)
        if match is not None and _order(match["version"]) <= _order(KUBERNETES_VERSIONS[-1]):
            return build(parameter, match)
    return None


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def published_parameters(version: str) -> list[str]:
    """The parameter names of one Kubernetes version that exist at the start."""
    al2023 = [("x86_64", "standard"), ("x86_64", "nvidia"), ("x86_64", "neuron")]
    al2023 += [("arm64", "standard"), ("arm64", "nvidia")]
    eks = f"{EKS_PREFIX}{version}/"
    names = [f"{eks}amazon-linux-2023/{arch}/{kind}/recommended/image_id" for arch, kind in al2023]
    if int(version.split(".")[1]) <= LAST_AL2_MINOR:
        names += [
            f"{eks}amazon-linux-2{kind}/recommended/image_id" for kind in ("", "-arm64", "-gpu")
        ]
    for kind in ("", "-nvidia"):
        rocket = f"{BOTTLEROCKET_PREFIX}aws-k8s-{version}{kind}"
        names += [f"{rocket}/{arch}/latest/image_id" for arch in ("x86_64", "arm64")]
    return [*names, *_windows_and_ubuntu(version)]


def _windows_and_ubuntu(version: str) -> list[str]:
    newest = int(version.split(".")[1]) >= FIRST_WINDOWS_2025_MINOR
    years = ("2019", "2022", "2025") if newest else ("2019", "2022")
    names = [
        f"{WINDOWS_PREFIX}Windows_Server-{year}-English-Core-EKS_Optimized-{version}/image_id"
        for year in years
    ]
    stable = f"{UBUNTU_PREFIX}{version}/stable/current"
    return names + [f"{stable}/{arch}/hvm/ebs-gp2/ami-id" for arch in ("amd64", "arm64")]


def _al2(parameter: str, match: re.Match[str]) -> PublishedImage | None:
    version, variant = match["version"], match["variant"]
    if int(version.split(".")[1]) > LAST_AL2_MINOR:
        return None
    date = _date(match["release"])
    name = f"amazon-eks{variant}-node-{version}-v{date}"
    if match["release"] not in ("recommended", name) or date < FIRST_AL2_DATE:
        return None
    return _eks_image(parameter, name, version, "arm64" if variant == "-arm64" else "x86_64", date)


def _al2023(parameter: str, match: re.Match[str]) -> PublishedImage | None:
    version, variant, architecture = match["version"], match["variant"], match["architecture"]
    if variant == "neuron" and architecture == "arm64":
        return None
    date = _date(match["release"])
    name = f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-v{date}"
    if match["release"] not in ("recommended", name) or date < FIRST_AL2023_DATE:
        return None
    return _eks_image(parameter, name, version, architecture, date)


def _eks_image(
    parameter: str, name: str, version: str, architecture: str, date: str
) -> PublishedImage | None:
    created = _parse_date(date)
    if created is None or date > LAST_DATE:
        return None
    return PublishedImage(
        parameter=parameter,
        name=name,
        description=f"EKS-optimized Kubernetes node based on Amazon Linux, (k8s: {version})",
        architecture=architecture,
        owner_id=EKS_OWNER,
        root_device="/dev/xvda",
        created=created,
    )


def _bottlerocket(parameter: str, match: re.Match[str]) -> PublishedImage | None:
    latest = match["release"] == "latest"
    release = BOTTLEROCKET_VERSION if latest else match["release"]
    kind = f"aws-k8s-{match['version']}{match['variant']}"
    name = f"bottlerocket-{kind}-{match['architecture']}-v{release}"
    return PublishedImage(
        parameter=parameter,
        name=name,
        description=name,
        architecture=match["architecture"],
        owner_id=BOTTLEROCKET_OWNER,
        root_device="/dev/xvda",
        root_gib=2,
    )


def _windows(parameter: str, match: re.Match[str]) -> PublishedImage | None:
    too_old = int(match["version"].split(".")[1]) < FIRST_WINDOWS_2025_MINOR
    if match["year"] == "2025" and too_old:
        return None
    name = f"{match['name']}-2026.01.01"
    return PublishedImage(
        parameter=parameter,
        name=name,
        description=f"Microsoft Windows Server {match['year']} Core for EKS {match['version']}",
        architecture="x86_64",
        owner_id=WINDOWS_OWNER,
        root_device="/dev/sda1",
        platform="windows",
        root_gib=50,
    )


def _ubuntu(parameter: str, match: re.Match[str]) -> PublishedImage:
    architecture = match["architecture"]
    name = (
        f"ubuntu-eks/k8s_{match['version']}/images/hvm-ssd/"
        f"ubuntu-focal-20.04-{architecture}-server-{RECOMMENDED_DATE}"
    )
    return PublishedImage(
        parameter=parameter,
        name=name,
        description=f"Canonical, Ubuntu EKS Node OS (k8s_{match['version']}), 20.04 LTS",
        architecture="x86_64" if architecture == "amd64" else architecture,
        owner_id=CANONICAL_OWNER,
        root_device="/dev/sda1",
    )


def _date(release: str) -> str:
    return RECOMMENDED_DATE if release == "recommended" else release.rsplit("-v", 1)[1]


def _parse_date(date: str) -> datetime | None:
    try:
        return datetime.strptime(date, "%Y%m%d").replace(tzinfo=UTC)
    except ValueError:
        return None
