"""Which images a class boots (LCH-01..09, EC-03, EC-17), against the emulator's EC2 and SSM."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.launcher.node_class.images import (
    DEPRECATED_SECONDS,
    PARAMETER_SECONDS,
    Images,
    boot_images,
)
from services.launcher.node_class.published_images import (
    ACCELERATOR_COUNT,
    ARCHITECTURES,
    GPU_COUNT,
    NEURON,
    NVIDIA,
    STANDARD,
    published,
)
from services.launcher.node_class.shared_answers import SharedAnswers
from services.launcher.resolved_class import BootImage, BootImages
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import Image
from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import SelectorTerm
from shared.domain.requirements import Requirement, Requirements
from shared.errors import InvalidObject
from tests.services.conftest import Control
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_node_class, make_type

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
    return Images(cloud, clock, SharedAnswers(clock))


def kind(arch: str = "amd64", **labels: str) -> InstanceType:
    """A type with these labels beside its architecture; ``gpu`` and ``accelerator`` are counts."""
    known = {"gpu": GPU_COUNT, "accelerator": ACCELERATOR_COUNT}
    named = {known.get(name, name): (value,) for name, value in labels.items()}
    return replace(make_type(), labels={keys.ARCH: (arch,), **named})


def test_each_type_boots_the_image_for_its_architecture_and_devices() -> None:
    """LCH-08: the newest image that suits."""
    suits = {"x": (STANDARD,), "arm": (STANDARD,), "gpu": (NVIDIA, NEURON)}
    images = boot_images(
        [image("x"), image("arm", "arm64"), image("gpu"), image("odd", "i386")], suits
    )
    found = BootImages(images)
    assert found.ids == ("x", "arm", "gpu")
    assert [found.of(kind()), found.of(kind("arm64"))] == ["x", "arm"]
    assert [found.of(kind(gpu="1")), found.of(kind(accelerator="2"))] == ["gpu", "gpu"]
    assert found.of(kind("arm64", gpu="1")) is None


def test_of_those_that_suit_the_first_in_order_of_preference_is_taken() -> None:
    """LCH-08: EC2's adapter sorts them: newest first, deprecated ones last."""
    images = boot_images([image("new"), image("old"), image("gone", deprecated=True)], {})
    assert [item.image.id for item in images] == ["new"]
    found = BootImages(images).of(kind(gpu="1"))
    assert found == "new"


@given(
    st.lists(st.tuples(st.sampled_from(["x86_64", "arm64", "i386"]), st.integers(0, 3)), max_size=8)
)
def test_the_image_of_a_type_is_the_first_that_suits_it(drawn: list[tuple[str, int]]) -> None:
    """LCH-08: keeping one image per set of requirements loses none that a type would boot."""
    kinds = [(STANDARD,), (NVIDIA,), (NVIDIA, NEURON), (Requirements(),)]
    images = [image(f"ami-{n}", arch) for n, (arch, _) in enumerate(drawn)]
    suits = {f"ami-{n}": kinds[number] for n, (_, number) in enumerate(drawn)}
    every = [
        BootImage(one, wanted.add(Requirement(keys.ARCH, False, frozenset({arch}))))
        for one in images
        for arch, ec2s in ARCHITECTURES.items()
        if one.architecture == ec2s
        for wanted in suits[one.id]
    ]
    for asked in (
        kind(),
        kind("arm64"),
        kind(gpu="1"),
        kind("arm64", gpu="1"),
        kind(accelerator="1"),
    ):
        assert BootImages(boot_images(images, suits)).of(asked) == BootImages(tuple(every)).of(
            asked
        )


def test_windows_nodes_boot_the_image_of_their_build() -> None:
    """LCH-08, IT-14: the class's family puts the build on its types."""
    images = boot_images([image("w")], {"w": published("Windows2022", "latest", K8S)[0].kinds})
    windows = {keys.OS: "windows", keys.WINDOWS_BUILD: "10.0.20348"}
    assert BootImages(images).of(kind(**windows)) == "w"
    assert BootImages(images).of(kind(**{keys.OS: "linux"})) is None


async def test_an_alias_finds_an_image_per_architecture_and_accelerator(images: Images) -> None:
    """LCH-03, EC-15: with the names for the status."""
    found = BootImages(await images.find(v1(alias("al2023@latest")), K8S))
    assert len(found.ids) == 5
    named = {item.image.id: item.image.name for item in found.items}
    wanted = {
        "arm64-standard": kind("arm64"), "x86_64-standard": kind(), "x86_64-nvidia": kind(gpu="1"),
        "x86_64-neuron": kind(accelerator="1"), "arm64-nvidia": kind("arm64", gpu="1"),
    }  # fmt: skip
    for variant, asked in wanted.items():
        assert named[found.of(asked) or ""].startswith(f"amazon-eks-node-al2023-{variant}-1.32-")


async def test_a_pinned_release_is_another_image(images: Images) -> None:
    """LCH-07: a pinned version of an image."""
    pinned = await images.find(v1(alias("al2023@v20240703")), K8S)
    latest = await images.find(v1(alias("al2023@latest")), K8S)
    assert all(item.image.name.endswith("v20240703") for item in pinned)
    assert not {item.image.id for item in pinned} & {item.image.id for item in latest}


@pytest.mark.parametrize("family", ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"])
async def test_a_v1alpha1_class_without_selector_gets_its_familys_image(
    images: Images, family: str
) -> None:
    """T-04: image families of v1alpha1; MAP-04: from v1alpha5 to v1."""
    node_class = make_node_class(generation_api=V1ALPHA5, ami_family=family)
    same = v1(alias(f"{family.lower()}@latest"), family=family)
    assert await images.find(node_class, K8S) == await images.find(same, K8S)


async def test_ubuntu_has_no_alias_and_is_found_by_its_family(images: Images) -> None:
    """LCH-06, T-04: v1alpha5 only."""
    found = await images.find(make_node_class(generation_api=V1ALPHA5, ami_family="Ubuntu"), K8S)
    assert {item.image.architecture for item in found} == {"x86_64", "arm64"}
    assert all("ubuntu-focal-20.04" in item.image.name for item in found)


async def test_terms_are_alternatives(images: Images) -> None:
    """EC-03: an SSM parameter, an id and a name with its owner."""
    arm = f"{EKS}/amazon-linux-2023/arm64/standard/recommended/image_id"
    named = SelectorTerm(name="amazon-eks-node-al2023-x86_64-standard-*", owner="602401143452")
    found = await images.find(v1(SelectorTerm(ssm_parameter=arm), named), K8S)
    by_arch = {item.image.architecture: item for item in found}
    assert set(by_arch) == {"x86_64", "arm64"}
    only = await images.find(v1(SelectorTerm(id=by_arch["arm64"].image.id)), K8S)
    assert only == (by_arch["arm64"],)


async def test_what_a_user_selects_suits_every_type_of_its_architecture(images: Images) -> None:
    """LCH-08: nothing says what drivers it has."""
    named = SelectorTerm(name="amazon-eks-node-al2023-x86_64-nvidia-1.32-*", owner="amazon")
    (found,) = await images.find(v1(named), K8S)
    assert found.suits(kind())
    assert found.suits(kind(gpu="1"))


@pytest.mark.parametrize(
    ("generation", "events"),
    [(V1, ["discovered amis"]), (V1ALPHA5, ["discovered new ami"] * 5)],
)
async def test_new_images_are_logged_once(
    images: Images, generation: str, events: list[str]
) -> None:
    """LCH-09, ACC-15: each generation in its words, the older with the query that found it."""
    node_class = make_node_class(generation_api=generation, ami_family="AL2023")
    with structlog.testing.capture_logs() as logs:
        await images.find(node_class, K8S)
        await images.find(node_class, K8S)
    told = [
        one for one in logs if one["event"].startswith("discovered ") and "parameter" not in one
    ]
    assert [one["event"] for one in told] == events
    assert all(one["log_level"] == "debug" for one in told)
    if generation == V1:
        assert len(told[0]["ids"]) == 5
    else:
        assert {one["query"] for one in told} == {
            one.path for one in published("AL2023", "latest", K8S)
        }


@pytest.mark.parametrize(
    ("term", "named"),
    [
        (SelectorTerm(id="ami-0"), "ami-0"),
        (SelectorTerm(tags={"team": "blue"}), "team=blue"),
        (SelectorTerm(ssm_parameter="/no/such"), "/no/such"),
        (SelectorTerm(alias="al2023@v1"), "al2023-arm64-nvidia-1.32-v1"),
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
    """LCH-01: images by SSM parameter."""
    node_class = v1(alias("al2023@latest"))
    await images.find(node_class, K8S)
    clock.advance(PARAMETER_SECONDS - 1)
    await images.find(node_class, K8S)
    assert asked(control) == 5
    clock.advance(2)
    await images.find(node_class, K8S)
    assert asked(control) == 10


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
