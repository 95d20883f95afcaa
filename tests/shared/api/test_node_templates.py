"""What an AWSNodeTemplate may say (T-01..T-12)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from shared.api.node_templates import parse_node_template
from shared.domain.nodepools import SubnetRef
from shared.domain.records import decode_record
from tests.shared.api.conftest import document, json_values, objects

DISCOVERY = {"karpenter.sh/discovery": "dev"}
WORDS = (
    "subnetSelector", "securityGroupSelector", "amiSelector", "amiFamily", "instanceProfile",
    "userData", "context", "tags", "launchTemplate", "metadataOptions", "blockDeviceMappings",
    "deviceName", "ebs", "volumeSize", "snapshotID", "subnets", "id", "zone", "conditions", "type",
    "Ready", "status", "AL2",
)  # fmt: skip


def template(**spec: Any) -> dict[str, Any]:
    """A valid one, with changes."""
    return document({"subnetSelector": DISCOVERY, "securityGroupSelector": DISCOVERY, **spec})


def faults_of(**spec: Any) -> list[str]:
    return parse_node_template(template(**spec))[1]


def test_the_template_of_the_seed_arrives_complete() -> None:
    """Seed 002: 30Gi gp3, tags, profile, detailed monitoring."""
    volume = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "30Gi", "volumeType": "gp3"}}
    raw = template(
        instanceProfile="Profile",
        amiFamily="AL2",
        blockDeviceMappings=[volume],
        detailedMonitoring=True,
        tags={"Name": "karpenter", "auto-delete": "no"},
    )
    raw["status"] = {
        "subnets": [{"id": "subnet-1", "zone": "us-west-2a"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    node_class, faults = parse_node_template(raw)
    assert faults == []
    assert node_class.subnet_selector == DISCOVERY
    assert node_class.block_device_mappings == (volume,)
    assert node_class.tags == {"Name": "karpenter", "auto-delete": "no"}
    assert node_class.instance_profile == "Profile"
    assert node_class.detailed_monitoring
    assert node_class.subnets == (SubnetRef("subnet-1", "us-west-2a"),)
    assert node_class.ready


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subnetSelector": None}, "spec.subnetSelector"),
        ({"securityGroupSelector": {}}, "spec.securityGroupSelector"),
        ({"launchTemplate": "mine"}, "spec.securityGroupSelector"),
        ({"amiFamily": "Gentoo"}, "spec.amiFamily"),
        ({"amiFamily": "Custom"}, "spec.amiSelector"),
        ({"tags": {"kubernetes.io/cluster/x": "owned"}}, "spec.tags[kubernetes.io/cluster/x]"),
        ({"tags": {"karpenter.sh/managed-by": "x"}}, "spec.tags[karpenter.sh/managed-by]"),
        ({"tags": {"": "x"}}, "spec.tags[]"),
        ({"tags": {"auto-delete": False}}, "spec.tags[auto-delete]"),
        ({"subnetSelector": ["a"]}, "spec.subnetSelector"),
        ({"userData": 5}, "spec.userData"),
        ({"metadataOptions": "none"}, "spec.metadataOptions"),
        ({"blockDeviceMappings": {}}, "spec.blockDeviceMappings"),
        ({"blockDeviceMappings": [{"ebs": {"volumeSize": "1Gi"}}]}, "deviceName"),
        (
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "big"}}]},
            "spec.blockDeviceMappings[0].ebs.volumeSize",
        ),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {}}]}, "[0].ebs"),
    ],
)
def test_each_fault_names_its_field(change: dict[str, Any], field: str) -> None:
    """T-01..T-11."""
    (fault,) = faults_of(**change)
    assert field in fault


def test_a_launch_template_stands_alone() -> None:
    """T-07, T-02: then no security group selector is needed."""
    spec = {"subnetSelector": DISCOVERY, "launchTemplate": "mine"}
    assert parse_node_template(document(spec))[1] == []


@given(objects(*WORDS), json_values(*WORDS))
def test_no_template_stops_the_reader(spec: dict[str, Any], status: object) -> None:
    """F27: faults, or a class that survives the mirror."""
    node_class, faults = parse_node_template({**template(**spec), "status": status})
    if not faults:
        assert decode_record("nodeclasses", msgspec.json.encode(node_class)) == node_class


@given(json_values(*WORDS))
def test_no_spec_of_any_type_stops_the_reader(spec: object) -> None:
    """F27."""
    assert parse_node_template(document(spec))[1]
