"""Which image a class boots (LCH-01..08, EC-03, EC-17), against the emulator's EC2 and SSM."""

from __future__ import annotations

from typing import Any

import pytest

from local.aws.images import image_for
from services.launcher.images import (
    ARCHITECTURES,
    DEPRECATED_SECONDS,
    PARAMETER_SECONDS,
    Images,
    check_supported,
    newest_by_architecture,
    published_paths,
)
from shared.cloud.records import Image
from shared.cloud.session import Cloud
from shared.domain.nodepools import V1, V1ALPHA5, SelectorTerm
from shared.errors import InvalidObject
from tests.services.conftest import Control
from tests.support.builders import make_node_class
from tests.support.fake_clock import FakeClock

K8S = "1.32"
EKS = "/aws/service/eks/optimized-ami/1.32"


def v1(*terms: SelectorTerm, family: str = "AL2023") -> Any:
    return make_node_class(generation_api=V1, image_terms=terms, ami_family=family)


def alias(text: str) -> SelectorTerm:
    return SelectorTerm(alias=text)


def image(name: str, arch: str = "x86_64", deprecated: bool = False) -> Image:
    return Image(name, name, arch, "", "self", deprecated)


@pytest.fixture
def images(cloud: Cloud, clock: FakeClock) -> Images:
    return Images(cloud, clock)


@pytest.mark.parametrize(
    ("family", "release"),
    [
        ("AL2", "latest"),
        ("AL2", "v20240703"),
        ("AL2023", "latest"),
        ("AL2023", "v20240703"),
        ("Bottlerocket", "latest"),
        ("Bottlerocket", "v1.20.3"),
    ],
)
def test_every_alias_leads_to_a_published_image_of_its_architecture(
    family: str, release: str
) -> None:
    """LCH-02, LCH-03, LCH-04, LCH-07: as the emulator, which was written from AWS's lists, publishes them."""
    for arch, path in published_paths(family, release, K8S).items():
        published = image_for(path)
        assert published is not None, path
        assert published.architecture == ARCHITECTURES[arch]
        assert release == "latest" or release.removeprefix("v") in published.name


def test_windows_and_ubuntu_have_paths_of_their_own() -> None:
    """LCH-05, LCH-06."""
    name = "Windows_Server-2022-English-Core-EKS_Optimized-1.32"
    assert published_paths("Windows2022", "latest", K8S) == {
        "amd64": f"/aws/service/ami-windows-latest/{name}/image_id"
    }
    ubuntu = published_paths("Ubuntu", "latest", K8S)
    stable = "/aws/service/canonical/ubuntu/eks/20.04/1.32/stable/current"
    assert ubuntu["arm64"] == f"{stable}/arm64/hvm/ebs-gp2/ami-id"
    assert published_paths("Custom", "latest", K8S) == {}


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
    """EC-17."""
    if not refused:
        check_supported(family, k8s, "field")
        return
    with pytest.raises(InvalidObject) as raised:
        check_supported(family, k8s, "field")
    assert raised.value.context["reason"] == "UnsupportedAlias"


def test_per_architecture_the_first_in_order_of_preference_is_taken() -> None:
    """LCH-08."""
    found = newest_by_architecture(
        [image("new"), image("arm", "arm64"), image("old"), image("odd", "i386")]
    )
    assert {arch: one.id for arch, one in found.items()} == {"amd64": "new", "arm64": "arm"}


async def test_an_alias_finds_one_image_per_architecture(images: Images) -> None:
    """LCH-03, EC-15: with the names for the status."""
    found = await images.find(v1(alias("al2023@latest")), K8S)
    assert {arch: one.architecture for arch, one in found.items()} == ARCHITECTURES
    assert found["arm64"].name.startswith("amazon-eks-node-al2023-arm64-standard-1.32-")


async def test_a_pinned_release_is_another_image(images: Images) -> None:
    """LCH-07."""
    pinned = await images.find(v1(alias("al2023@v20240703")), K8S)
    latest = await images.find(v1(alias("al2023@latest")), K8S)
    assert pinned["amd64"].name.endswith("v20240703")
    assert pinned["amd64"].id != latest["amd64"].id


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket"])
async def test_a_v1alpha1_class_without_selector_gets_its_familys_image(
    images: Images, family: str
) -> None:
    """T-04, table 1.9."""
    node_class = make_node_class(generation_api=V1ALPHA5, ami_family=family)
    same = v1(alias(f"{family.lower()}@latest"), family=family)
    assert await images.find(node_class, K8S) == await images.find(same, K8S)


async def test_terms_are_alternatives(images: Images) -> None:
    """EC-03: an SSM parameter, an id and a name with its owner."""
    arm = f"{EKS}/amazon-linux-2023/arm64/standard/recommended/image_id"
    named = SelectorTerm(name="amazon-eks-node-al2023-x86_64-standard-*", owner="602401143452")
    found = await images.find(v1(SelectorTerm(ssm_parameter=arm), named), K8S)
    assert set(found) == {"amd64", "arm64"}
    only = await images.find(v1(SelectorTerm(id=found["arm64"].id)), K8S)
    assert only == {"arm64": found["arm64"]}


@pytest.mark.parametrize(
    ("term", "named"),
    [
        (SelectorTerm(id="ami-0"), "ami-0"),
        (SelectorTerm(tags={"team": "blue"}), "team=blue"),
        (SelectorTerm(ssm_parameter="/no/such"), "/no/such"),
        (SelectorTerm(alias="al2023@v1"), "al2023-arm64-standard-1.32-v1"),
    ],
)
async def test_a_term_that_finds_nothing_is_named(
    images: Images, term: SelectorTerm, named: str
) -> None:
    """EC-17 AMINotFound."""
    with pytest.raises(InvalidObject, match=named) as raised:
        await images.find(v1(term), K8S)
    assert raised.value.field == "spec.amiSelectorTerms"
    assert raised.value.context["reason"] == "AMINotFound"


def asked(control: Control) -> int:
    calls = control.get("calls")["calls"]
    return sum(1 for call in calls if call["action"] == "GetParameter")


async def test_parameters_are_asked_once_a_day(
    images: Images, control: Control, clock: FakeClock
) -> None:
    """LCH-01."""
    node_class = v1(alias("al2023@latest"))
    await images.find(node_class, K8S)
    clock.advance(PARAMETER_SECONDS - 1)
    await images.find(node_class, K8S)
    assert asked(control) == 2
    clock.advance(2)
    await images.find(node_class, K8S)
    assert asked(control) == 4


async def test_a_missing_parameter_is_asked_again_at_once(images: Images, control: Control) -> None:
    for _ in range(2):
        with pytest.raises(InvalidObject):
            await images.find(v1(SelectorTerm(ssm_parameter="/no/such")), K8S)
    assert asked(control) == 2


async def test_a_parameter_of_a_deprecated_image_is_asked_every_half_hour(
    images: Images, clock: FakeClock
) -> None:
    """LCH-01: a newer image stands there by then."""
    await images.find(v1(alias("al2023@latest")), K8S)
    (first, *_) = images._parameters
    old = image(images._parameters[first][1], deprecated=True)
    images._forget_deprecated([old])
    assert first in images._parameters
    clock.advance(DEPRECATED_SECONDS)
    images._forget_deprecated([old])
    assert first not in images._parameters
    assert images._parameters
