"""Which image the machines of a node class boot: by alias, by SSM parameter, by id, name or tags (LCH-01..08).

AWS publishes the newest image of each family under an SSM path; an alias names family and release. What may go
wrong: a release that was never published, an alias whose family ended with an older Kubernetes, a selector that finds
nothing. Each raises ``InvalidObject`` with the field and, in its context, the reason for the class's condition (EC-17).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.api.schema.selector_terms import alias_family
from shared.clock import Clock
from shared.cloud.records import Image
from shared.cloud.session import Cloud
from shared.domain.nodepools import V1, NodeClass, SelectorTerm
from shared.errors import InvalidObject, NotFound
from shared.log import get_logger

log = get_logger(__name__)

NOT_FOUND = "AMINotFound"
UNSUPPORTED_ALIAS = "UnsupportedAlias"
LATEST = "latest"
ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
"""Kubernetes' word -> EC2's."""
PARAMETER_SECONDS = 24 * 3600.0
DEPRECATED_SECONDS = 30 * 60.0
"""LCH-01: how long a parameter's value is used, and how long once its image is deprecated."""
MOST_PARAMETERS = 1000
_EKS = "/aws/service/eks/optimized-ami/{k8s}"
_LAST_AL2, _FIRST_WINDOWS2025 = 32, 35
"""Minor versions of Kubernetes."""


def published_paths(family: str, release: str, k8s: str) -> dict[str, str]:
    """Architecture -> SSM path of one release of a family, for one Kubernetes version (LCH-02..07).

    ``release``: ``latest``, or a published version such as ``v20240703``. Empty for a family without published images.
    """
    eks, newest = _EKS.format(k8s=k8s), release == LATEST
    if family == "AL2":
        suffixes = {"amd64": "", "arm64": "-arm64"}
        return {
            arch: f"{eks}/amazon-linux-2{suffix}/"
            + ("recommended" if newest else f"amazon-eks{suffix}-node-{k8s}-{release}")
            + "/image_id"
            for arch, suffix in suffixes.items()
        }
    if family == "AL2023":
        return {
            arch: f"{eks}/amazon-linux-2023/{name}/standard/"
            + (
                "recommended"
                if newest
                else f"amazon-eks-node-al2023-{name}-standard-{k8s}-{release}"
            )
            + "/image_id"
            for arch, name in ARCHITECTURES.items()
        }
    if family == "Bottlerocket":
        version = LATEST if newest else release.removeprefix("v")
        return {
            arch: f"/aws/service/bottlerocket/aws-k8s-{k8s}/{name}/{version}/image_id"
            for arch, name in ARCHITECTURES.items()
        }
    return _other_paths(family, k8s)


def _other_paths(family: str, k8s: str) -> dict[str, str]:
    """Windows (LCH-05) and Ubuntu (LCH-06) publish their newest image only."""
    if family == "Ubuntu":
        stable = f"/aws/service/canonical/ubuntu/eks/20.04/{k8s}/stable/current"
        return {arch: f"{stable}/{arch}/hvm/ebs-gp2/ami-id" for arch in ARCHITECTURES}
    if family.startswith("Windows"):
        name = f"Windows_Server-{family.removeprefix('Windows')}-English-Core-EKS_Optimized-{k8s}"
        return {"amd64": f"/aws/service/ami-windows-latest/{name}/image_id"}
    return {}


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


def newest_by_architecture(images: Iterable[Image]) -> dict[str, Image]:
    """LCH-08: of images in order of preference, the first for each Kubernetes architecture."""
    found: dict[str, Image] = {}
    for image in images:
        for arch, name in ARCHITECTURES.items():
            if image.architecture == name:
                found.setdefault(arch, image)
    return found


@dataclass
class Images:
    """Finds images and remembers what SSM said."""

    cloud: Cloud
    clock: Clock
    _parameters: dict[str, tuple[float, str]] = field(default_factory=dict)

    async def find(self, node_class: NodeClass, k8s: str) -> dict[str, Image]:
        """Kubernetes architecture -> image. Raises InvalidObject when there is none at all."""
        where = "spec.amiSelectorTerms" if node_class.generation_api == V1 else "spec.amiSelector"
        if not node_class.image_terms:
            where = "spec.amiFamily"
        paths = _paths(node_class, k8s, where)
        asked = {path: await self._parameter(path) for path in paths}
        terms = [term for term in node_class.image_terms if not (term.alias or term.ssm_parameter)]
        terms += [SelectorTerm(id=image) for image in asked.values() if image]
        images = await self.cloud.ec2.images(terms)
        self._forget_deprecated(images)
        found = newest_by_architecture(images)
        if not found:
            raise InvalidObject(_nothing(node_class, paths), field=where, reason=NOT_FOUND)
        return found

    async def _parameter(self, path: str) -> str:
        """The image id at this path, empty when SSM has none."""
        known = self._parameters.get(path)
        if known is not None and self.clock.monotonic() - known[0] < PARAMETER_SECONDS:
            return known[1]
        try:
            value = await self.cloud.ssm.parameter(path)
        except NotFound:
            return ""
        if len(self._parameters) >= MOST_PARAMETERS:
            self._parameters.clear()
        self._parameters[path] = (self.clock.monotonic(), value)
        log.debug("discovered ssm parameter", parameter=path, value=value)
        return value

    def _forget_deprecated(self, images: Iterable[Image]) -> None:
        """LCH-01: AWS deprecates an image when a newer one stands at the same path."""
        deprecated = {image.id for image in images if image.deprecated}
        now = self.clock.monotonic()
        self._parameters = {
            path: (since, value)
            for path, (since, value) in self._parameters.items()
            if value not in deprecated or now - since < DEPRECATED_SECONDS
        }


def _paths(node_class: NodeClass, k8s: str, where: str) -> list[str]:
    """SSM parameters to ask: of aliases, of the terms that name one, or of the family alone."""
    if not node_class.image_terms:
        check_supported(node_class.ami_family, k8s, where)
        return list(published_paths(node_class.ami_family, LATEST, k8s).values())
    paths: list[str] = []
    for index, term in enumerate(node_class.image_terms):
        if term.alias:
            family, release = alias_family(term.alias), term.alias.partition("@")[2]
            check_supported(family, k8s, f"{where}[{index}].alias")
            paths += published_paths(family, release, k8s).values()
        elif term.ssm_parameter:
            paths.append(term.ssm_parameter)
    return paths


def _nothing(node_class: NodeClass, paths: list[str]) -> str:
    asked = [described(term) for term in node_class.image_terms if not term.alias]
    asked += [f"SSM parameter {path}" for path in paths]
    return f"no image for amd64 or arm64 was found by {'; nor by '.join(asked) or 'this family'}"


def described(term: SelectorTerm) -> str:
    """A term for people: ``id ami-1``, ``name web-* owner self``, ``tags a=1, b=2``."""
    tags = ", ".join(f"{key}={value}" for key, value in sorted(term.tags.items()))
    named = {
        "id": term.id,
        "name": term.name,
        "owner": term.owner,
        "parameter": term.ssm_parameter,
        "tags": tags,
    }
    return " ".join(f"{name} {value}" for name, value in named.items() if value)
