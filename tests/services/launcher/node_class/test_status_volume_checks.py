"""Volumes that are too small for what is on them (T-09, EC-12): told on the class, before a launch fails."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.node_class.status import Problem, snapshots_of, volume_problems
from shared.cloud.ec2.records import Image
from tests.support.planning.builders import make_node_class

IMAGES = (
    Image("ami-1", "one", "x86_64", "", "self", False, {"/dev/xvda": 20}),
    Image("ami-2", "two", "arm64", "", "self", False, {"/dev/xvda": 30, "/dev/xvdb": 4}),
)
SNAPSHOTS = {"snap-1": 100}


def problems(*mappings: dict[str, Any], snapshots: dict[str, int] | None = SNAPSHOTS) -> list[str]:
    node_class = make_node_class(block_device_mappings=mappings)
    return [text(one) for one in volume_problems(node_class, IMAGES, snapshots)]


def text(problem: Problem) -> str:
    assert problem.condition == "ValidationSucceeded"
    return f"{problem.reason} {problem.message}"


def volume(device: str = "/dev/xvda", **ebs: Any) -> dict[str, Any]:
    return {"deviceName": device, "ebs": ebs}


def test_a_volume_must_hold_its_snapshot() -> None:
    (said,) = problems(
        volume(volumeSize="30Gi"),
        volume("/dev/xvdb", volumeSize="99Gi", snapshotID="snap-1"),
    )
    assert said == (
        "VolumeTooSmall spec.blockDeviceMappings[1].ebs.volumeSize: 99Gi is too small for "
        "snapshot snap-1; give it 100Gi"
    )
    assert problems(volume(volumeSize="100Gi", snapshotID="snap-1")) == []
    assert problems(volume(snapshotID="snap-1")) == []


def test_a_snapshot_must_exist() -> None:
    (said,) = problems(volume(snapshotID="snap-2"))
    assert said.startswith("SnapshotNotFound spec.blockDeviceMappings[0].ebs.snapshotID: ")


def test_snapshots_that_we_may_not_look_at_are_not_judged() -> None:
    """A policy without ec2:DescribeSnapshots is no mistake of the class."""
    assert problems(volume(volumeSize="1Gi", snapshotID="snap-1"), snapshots=None) == []


def test_a_volume_must_hold_each_image() -> None:
    (said,) = problems(volume(volumeSize="25Gi"))
    assert "25Gi, which is too small for image ami-2; give it 30Gi" in said
    assert problems(volume(volumeSize="30Gi")) == []
    assert problems(volume("/dev/sdz", volumeSize="1Gi")) == []


def test_a_familys_own_volume_may_be_too_small_for_an_image_of_the_user() -> None:
    """IT-16: the class must map one then."""
    (said,) = problems()
    assert said.startswith("VolumeTooSmall spec.blockDeviceMappings: the volume /dev/xvda has 20Gi")


@pytest.mark.parametrize("ids", [(), ("snap-1",), ("snap-1", "snap-2")])
def test_the_snapshots_of_a_class_are_those_that_its_volumes_name(ids: tuple[str, ...]) -> None:
    mappings = (volume(volumeSize="20Gi"), *(volume(snapshotID=one) for one in ids))
    assert snapshots_of(make_node_class(block_device_mappings=mappings)) == frozenset(ids)
