"""What pools and classes say about the size of their machines (P-20, EC-10, EC-12, IT-13..16, IT-32, IT-33)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.instance_types.size_settings import USUAL, SizeSettings, Threshold
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.errors import InvalidObject
from tests.support.planning.builders import make_machine, make_node_class, make_pool

GIB = 1024**3


def of_class(**node_class: Any) -> SizeSettings:
    """A v1 pool whose class says this."""
    pool = make_pool(generation_api=V1)
    return SizeSettings.of(pool, make_node_class(generation_api=V1, **node_class))


def volume(device: str, size: str | None, *, root: bool = False) -> dict[str, object]:
    mapping: dict[str, object] = {"deviceName": device, "ebs": {"volumeSize": size}}
    return {**mapping, "rootVolume": True} if root else mapping


FIRST, SECOND = volume("/dev/xvda", "40Gi"), volume("/dev/xvdb", "60Gi")
ROOT = volume("/dev/sdb", "80Gi", root=True)
FROM_SNAPSHOT = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"snapshotID": "snap-1"}}


@pytest.mark.parametrize("family", ["AL2", "Ubuntu", "Custom"])
def test_families_of_the_usual_size_share_one_table(family: str) -> None:
    """IT-16: default volumes; IT-31: memory kept for the kubelet."""
    assert of_class(ami_family=family) == USUAL
    assert hash(of_class(ami_family=family)) == hash(USUAL)


def test_al2023_is_told_apart_from_other_families_by_its_platform_only() -> None:
    """IT-02: types without a category."""
    assert of_class(ami_family="AL2023") == SizeSettings(platform="al2023")


def test_what_changes_no_size_is_not_told_apart() -> None:
    """IT-33: soft eviction never counts."""
    kubelet = {"evictionSoft": {"memory.available": "50%"}, "clusterDNS": ["10.0.0.10"]}
    usual_disk = (volume("/dev/xvda", "20Gi", root=True),)
    assert of_class(kubelet=kubelet, block_device_mappings=usual_disk) == USUAL


@pytest.mark.parametrize(
    ("family", "mappings", "gib"),
    [
        ("AL2", (), 20),
        ("AL2", (SECOND, FIRST), 40),
        ("AL2", (FIRST, ROOT), 80),
        ("AL2", (SECOND,), 20),
        ("AL2", (FROM_SNAPSHOT,), 20),
        ("Bottlerocket", (), 20),
        ("Bottlerocket", (FIRST, SECOND), 60),
        ("Custom", (FIRST, SECOND), 60),
        ("Windows2022", (), 50),
        ("Windows2022", (volume("/dev/sda1", "70Gi"),), 70),
    ],
)
def test_pods_live_on_the_right_volume(
    family: str, mappings: tuple[dict[str, object], ...], gib: int
) -> None:
    """IT-15: ephemeral storage; IT-16: default volumes; EC-12: block device mappings."""
    settings = of_class(ami_family=family, block_device_mappings=mappings)
    assert settings.volume_bytes == gib * GIB


def test_a_provisioner_says_itself_how_its_kubelets_run() -> None:
    """P-20: and in v1 the class does (EC-10)."""
    pool = make_pool(kubelet={"maxPods": 10})
    machine = make_machine(kubelet={"maxPods": 10})
    template = make_node_class(kubelet={"maxPods": 99})
    assert SizeSettings.of(pool, template) == SizeSettings(max_pods=10)
    assert SizeSettings.of(machine, template) == SizeSettings(max_pods=10)
    v1 = make_node_class(generation_api=V1, kubelet={"maxPods": 99})
    assert SizeSettings.of(pool, v1) == SizeSettings(max_pods=99)


def test_amounts_are_read_whatever_their_spelling() -> None:
    one = of_class(kubelet={"kubeReserved": {"cpu": "1", "memory": "1Gi"}})
    other = of_class(kubelet={"kubeReserved": {"memory": "1024Mi", "cpu": "1000m"}})
    assert one == other == SizeSettings(kube_reserved=(("cpu", 1000), ("memory", GIB)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5%", Threshold(percent=5)),
        ("0%", Threshold(percent=0)),
        ("100%", Threshold()),
        ("200Mi", Threshold(amount=200 * 1024**2)),
    ],
)
def test_a_threshold_is_an_amount_or_a_percentage(text: str, expected: Threshold) -> None:
    """IT-33: 100 % switches it off."""
    settings = of_class(kubelet={"evictionHard": {"memory.available": text}})
    assert (settings.memory_eviction, settings.storage_eviction) == (expected, None)


@pytest.mark.parametrize(
    ("kubelet", "field"),
    [
        ({"kubeReserved": {"cpu": ["much"]}}, "spec.kubelet"),
        ({"systemReserved": {"memory": "-1"}}, "spec.kubelet.systemReserved.memory"),
        ({"evictionHard": {"memory.available": "x%"}}, "evictionHard[memory.available]"),
        ({"evictionHard": {"nodefs.available": "120%"}}, "evictionHard[nodefs.available]"),
        ({"maxPods": [10]}, "spec.kubelet"),
        ({"maxPods": -1}, "spec.kubelet.maxPods"),
        ({"kubeReserved": ["cpu"]}, "spec.kubelet"),
    ],
)
def test_a_wrong_setting_is_named(kubelet: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidObject) as raised:
        of_class(kubelet=kubelet)
    assert field in raised.value.field


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
NAMES = ("maxPods", "podsPerCore", "kubeReserved", "systemReserved", "evictionHard", "other")


@given(st.dictionaries(st.sampled_from(NAMES), ANY_JSON))
def test_a_machine_with_any_kubelet_is_read_or_named(kubelet: dict[str, object]) -> None:
    """A launch that fails with another error would stop the launcher's work on other machines."""
    found = None
    with contextlib.suppress(InvalidObject):
        found = SizeSettings.of(make_machine(kubelet=kubelet), make_node_class())
    assert found is None or ((found.max_pods or 0) >= 0 and found.pods_per_core >= 0)


def test_a_provisioner_is_told_the_name_of_its_own_field() -> None:
    pool = make_pool(kubelet={"kubeReserved": {"cpu": "much"}}, generation_api=V1ALPHA5)
    with pytest.raises(InvalidObject) as raised:
        SizeSettings.of(pool, make_node_class())
    assert raised.value.field == "spec.kubeletConfiguration.kubeReserved.cpu"
