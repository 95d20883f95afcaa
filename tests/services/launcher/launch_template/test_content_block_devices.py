"""Volumes as EC2 wants them (T-09, EC-12, IT-16)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.launch_template.content import volumes
from shared.errors import InvalidObject
from tests.support.planning.builders import make_node_class


def mapped(*mappings: dict[str, Any], **node_class: Any) -> list[dict[str, Any]]:
    return volumes(make_node_class(block_device_mappings=mappings, **node_class))


@pytest.mark.parametrize(
    ("text", "gib"), [("30Gi", 30), ("1500Mi", 2), ("1G", 1), ("1Ti", 1024), ("20G", 19)]
)
def test_sizes_are_rounded_up_to_whole_gib(text: str, gib: int) -> None:
    """LCH-24: content of a launch template."""
    volume = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": text}}
    (mapping,) = mapped(volume)
    assert mapping["Ebs"]["VolumeSize"] == gib


def test_a_size_that_is_none_names_its_field() -> None:
    wrong = ({"deviceName": "a", "ebs": {}}, {"deviceName": "b", "ebs": {"volumeSize": "big"}})
    with pytest.raises(InvalidObject, match=r"blockDeviceMappings\[1\]\.ebs\.volumeSize"):
        mapped(*wrong)


@pytest.mark.parametrize(
    ("family", "devices"),
    [
        ("AL2", {"/dev/xvda": 20}),
        ("AL2023", {"/dev/xvda": 20}),
        ("Ubuntu", {"/dev/sda1": 20}),
        ("Bottlerocket", {"/dev/xvda": 4, "/dev/xvdb": 20}),
        ("Windows2022", {"/dev/sda1": 50}),
    ],
)
def test_each_family_has_volumes_of_its_own(family: str, devices: dict[str, int]) -> None:
    """IT-16: encrypted, and gone with their machine."""
    made = volumes(make_node_class(ami_family=family))
    assert {one["DeviceName"]: one["Ebs"]["VolumeSize"] for one in made} == devices
    kinds = [(e["VolumeType"], e["Encrypted"], e["DeleteOnTermination"]) for e in _ebs(made)]
    assert set(kinds) == {("gp3", True, True)}


def _ebs(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one["Ebs"] for one in made]


def test_a_custom_image_keeps_its_own_devices() -> None:
    """Its root device may be another; a mapping would add a disk."""
    assert volumes(make_node_class(ami_family="Custom")) == []
    volume = {"deviceName": "/dev/sda1", "ebs": {"volumeSize": "30Gi"}}
    assert mapped(volume, ami_family="Custom")


def test_a_snapshot_may_be_loaded_at_a_rate() -> None:
    """EC-12: block device mappings."""
    ebs = {"snapshotID": "snap-1", "volumeInitializationRate": 200}
    volume = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": ebs}
    assert mapped(volume) == [
        {
            "DeviceName": "/dev/xvda",
            "Ebs": {"SnapshotId": "snap-1", "VolumeInitializationRate": 200},
        }
    ]
