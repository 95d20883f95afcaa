"""Node classes of v1alpha5 in the words of v1 (MAP-04)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.api.v1.ec2_node_classes import ec2_node_class_object, parse_ec2_node_class
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass, SelectorTerm
from tests.shared.api.documents.node_classes import DISCOVERY


def old(**fields: Any) -> NodeClass:
    """A class of v1alpha5."""
    given_fields: dict[str, Any] = {
        "subnet_terms": (SelectorTerm(tags=DISCOVERY),),
        "security_group_terms": (SelectorTerm(tags=DISCOVERY),),
        "instance_profile": "demo-profile",
        **fields,
    }
    return NodeClass(uid="", name="one", generation_api=V1ALPHA5, **given_fields)


@pytest.mark.parametrize(
    ("family", "alias"),
    [
        ("AL2", "al2@latest"),
        ("AL2023", "al2023@latest"),
        ("Bottlerocket", "bottlerocket@latest"),
        ("Windows2019", "windows2019@latest"),
        ("Windows2022", "windows2022@latest"),
    ],
)
def test_an_old_class_without_image_gets_its_familys(family: str, alias: str) -> None:
    """MAP-04: from v1alpha5 to v1."""
    written = ec2_node_class_object(old(ami_family=family))
    assert not written.notes
    assert written.document["spec"]["amiSelectorTerms"] == [{"alias": alias}]
    assert written.document["spec"]["amiFamily"] == family


def test_an_old_class_keeps_its_two_hops() -> None:
    """T-08, EC-13: v1 alone would say one."""
    spec = ec2_node_class_object(old()).document["spec"]
    assert spec["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "required",
    }
    three = old(metadata_options={"httpPutResponseHopLimit": 3})
    spec = ec2_node_class_object(three).document["spec"]
    assert spec["metadataOptions"]["httpPutResponseHopLimit"] == 3


def test_names_and_owners_of_images_become_terms_of_one_each() -> None:
    """MAP-04: from v1alpha5 to v1."""
    terms = (SelectorTerm(name="a", owner="self,amazon", tags={"t": "v"}), SelectorTerm(id="ami-1"))
    written = ec2_node_class_object(old(image_terms=terms))
    assert not written.notes
    assert written.document["spec"]["amiSelectorTerms"] == [
        {"name": "a", "owner": "self", "tags": {"t": "v"}},
        {"name": "a", "owner": "amazon", "tags": {"t": "v"}},
        {"id": "ami-1"},
    ]


@pytest.mark.parametrize(
    ("size", "expected"), [("1.5Gi", "2Gi"), (10**10, "10Gi"), ("30Gi", "30Gi")]
)
def test_sizes_of_volumes_get_a_unit_that_v1_takes(size: Any, expected: str) -> None:
    """T-09: block device mappings; EC-12: block device mappings; LCH-24: content of a launch template."""
    mapping = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": size, "volumeType": "gp3"}}
    written = ec2_node_class_object(old(block_device_mappings=(mapping,)))
    assert not written.notes
    ebs = written.document["spec"]["blockDeviceMappings"][0]["ebs"]
    assert ebs == {"volumeSize": expected, "volumeType": "gp3"}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"launch_template": "mine"}, "spec.launchTemplate"),
        ({"ami_family": "Custom"}, "spec.amiSelectorTerms"),
        ({"ami_family": "Ubuntu", "image_terms": (SelectorTerm(id="ami-1"),)}, "spec.amiFamily"),
        ({"instance_profile": ""}, "spec.role"),
        ({"tags": {"karpenter.sh/nodepool": "a"}}, "spec.tags[karpenter.sh/nodepool]"),
        ({"kubelet": {"containerRuntime": "dockerd"}}, "spec.kubelet.containerRuntime"),
        ({"subnet_terms": (SelectorTerm(tags={"a": ""}),)}, "spec.subnetSelectorTerms[0].tags.a"),
        ({"security_group_terms": ()}, "spec.securityGroupSelectorTerms"),
    ],
)
def test_what_v1_cannot_say_is_noted(fields: dict[str, Any], path: str) -> None:
    """MAP-04: from v1alpha5 to v1."""
    written = ec2_node_class_object(old(**fields))
    assert [str(note).partition(": ")[0] for note in written.notes] == [path]


def test_an_old_class_without_notes_is_a_class_of_v1() -> None:
    """MAP-04: what is written can be applied."""
    written = ec2_node_class_object(
        old(tags={"team": "a"}, kubelet={"containerRuntime": "containerd"})
    )
    assert not written.notes
    found = parse_ec2_node_class(written.document).require("class")
    assert (found.generation_api, found.instance_profile, found.kubelet) == (V1, "demo-profile", {})


def test_a_stored_node_template_becomes_a_class_of_v1() -> None:
    """MAP-04, from the file of a user: one term for each id, name and owner."""
    spec = {
        "subnetSelector": {"aws-ids": "subnet-1,subnet-2"},
        "securityGroupSelector": DISCOVERY,
        "amiSelector": {"aws::name": "a,b", "aws::owners": "self,amazon"},
        "instanceProfile": "demo-profile",
    }
    template = parse_node_template({"metadata": {"name": "one"}, "spec": spec}).require("template")
    written = ec2_node_class_object(template)
    assert not written.notes
    new = written.document["spec"]
    assert new["subnetSelectorTerms"] == [{"id": "subnet-1"}, {"id": "subnet-2"}]
    assert [(term["name"], term["owner"]) for term in new["amiSelectorTerms"]] == [
        ("a", "self"),
        ("a", "amazon"),
        ("b", "self"),
        ("b", "amazon"),
    ]
