"""What an AWSNodeTemplate may say (T-01..T-12)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from shared.api.schema.v1alpha5.aws_node_template import AWSNodeTemplate
from shared.api.v1alpha5.node_templates import node_template_object, parse_node_template
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodeClass, SelectorTerm, SubnetRef
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


def volume(**ebs: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": ebs}]}


def texts(raw: dict[str, Any]) -> list[str]:
    """The faults of a document as sentences; a record comes only without them."""
    found = parse_node_template(raw)
    assert (found.record is None) == bool(found.faults)
    return [str(fault) for fault in found.faults]


def faults_of(**spec: Any) -> list[str]:
    return texts(template(**spec))


def class_of(**spec: Any) -> NodeClass:
    return parse_node_template(template(**spec)).require("AWSNodeTemplate/one")


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
    node_class = parse_node_template(raw).require("AWSNodeTemplate/one")
    assert node_class.key == "AWSNodeTemplate/one"
    assert node_class.subnet_terms == (SelectorTerm(tags=DISCOVERY),)
    assert node_class.security_group_terms == (SelectorTerm(tags=DISCOVERY),)
    assert node_class.image_terms == ()
    assert node_class.block_device_mappings == (volume,)
    assert node_class.tags == {"Name": "karpenter", "auto-delete": "no"}
    assert node_class.instance_profile == "Profile"
    assert node_class.detailed_monitoring
    assert node_class.subnets == (SubnetRef("subnet-1", "us-west-2a"),)
    assert node_class.ready


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"subnetSelector": None}, "spec.subnetSelector: is required; select the subnets"),
        ({"securityGroupSelector": {}}, "spec.securityGroupSelector"),
        ({"launchTemplate": "mine"}, "spec.securityGroupSelector: cannot be combined"),
        ({"amiFamily": "Gentoo"}, "spec.amiFamily"),
        ({"amiFamily": "Custom"}, "spec.amiSelector"),
        ({"tags": {"kubernetes.io/cluster/x": "owned"}}, "spec.tags[kubernetes.io/cluster/x]"),
        ({"tags": {"karpenter.sh/managed-by": "x"}}, "spec.tags[karpenter.sh/managed-by]"),
        ({"tags": {"": "x"}}, "spec.tags[]"),
        ({"tags": {"aws:x": "x"}}, "spec.tags[aws:x]: AWS reserves keys that begin with aws:"),
        (
            {"tags": {"auto-delete": False}},
            "spec.tags[auto-delete]: must be a string; put it in quotes",
        ),
        ({"subnetSelector": ["a"]}, "spec.subnetSelector"),
        ({"userData": 5}, "spec.userData"),
        ({"metadataOptions": "none"}, "spec.metadataOptions"),
        ({"blockDeviceMappings": {}}, "spec.blockDeviceMappings"),
        ({"blockDeviceMappings": [{"ebs": {"volumeSize": "1Gi"}}]}, "[0].deviceName"),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda"}]}, "[0].ebs"),
        (volume(volumeSize=30), "[0].ebs.volumeSize: must be from 1G to 64T; write a unit"),
        (volume(volumeSize="65Ti"), "[0].ebs.volumeSize: must be from 1G"),
        (volume(volumeSize="1Gi", volumeType="gp4"), "[0].ebs.volumeType"),
        (volume(volumeSize="1Gi", iops=0), "[0].ebs.iops"),
        ({"metadataOptions": {"httpPutResponseHopLimit": 65}}, "httpPutResponseHopLimit"),
        ({"metadataOptions": {"httpTokens": "maybe"}}, "spec.metadataOptions.httpTokens"),
        ({"userData": "x" * 16385}, "spec.userData"),
        ({"userData": "\ud800"}, "spec.userData"),
        ({"tags": {f"k{i}": "v" for i in range(10_000)}}, "spec.tags"),
        (
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "big"}}]},
            "spec.blockDeviceMappings[0].ebs.volumeSize",
        ),
        ({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {}}]}, "[0].ebs"),
    ],
)
def test_each_fault_names_its_field(change: dict[str, Any], field: str) -> None:
    """T-01..T-11: every field of a template."""
    (fault,) = faults_of(**change)
    assert field in fault


def test_a_launch_template_stands_alone() -> None:
    """T-07, T-02: then no security group selector is needed."""
    spec = {"subnetSelector": DISCOVERY, "launchTemplate": "mine"}
    assert texts(document(spec)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"metadataOptions": {}},
        {"amiFamily": "AL2"},
        {"instanceProfile": "x"},
        volume(volumeSize="1Gi"),
        {"userData": "x"},
        {"amiSelector": DISCOVERY},
    ],
)
def test_nothing_that_a_launch_template_says_may_stand_beside_it(change: dict[str, Any]) -> None:
    """T-07: launchTemplate excludes other fields."""
    spec = {"subnetSelector": DISCOVERY, "launchTemplate": "mine", **change}
    assert texts(document(spec)) == [
        f"spec.{next(iter(change))}: cannot be combined with launchTemplate"
    ]


@pytest.mark.parametrize(
    "family", ["AL2", "AL2023", "Bottlerocket", "Ubuntu", "Windows2019", "Windows2022"]
)
def test_the_families_of_both_generations_are_known(family: str) -> None:
    """T-04; AL2023 came later and is taken here as well."""
    assert class_of(amiFamily=family).ami_family == family


def test_a_custom_family_brings_its_images() -> None:
    """T-03: image selector of Custom."""
    node_class = class_of(amiFamily="Custom", amiSelector={"aws-ids": "ami-1,ami-2"})
    assert node_class.image_terms == (SelectorTerm(id="ami-1"), SelectorTerm(id="ami-2"))


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        ({"aws-ids": "subnet-1", "a": "b"}, "spec.subnetSelector[aws-ids]: must be the only key"),
        ({"aws::ids": " , "}, "spec.subnetSelector[aws::ids]: must hold at least one value"),
        ({"aws::name": "a"}, "spec.subnetSelector[aws::name]: is not allowed here"),
        (
            {"aws::owners": "self"},
            "spec.subnetSelector[aws::owners]: is allowed in amiSelector only",
        ),
        ({"a": ","}, "spec.subnetSelector.a: must hold at least one value"),
        ({"": "b"}, "spec.subnetSelector[]: needs a key and a value; * is any value"),
        ({"a": ""}, "spec.subnetSelector.a: needs a key and a value; * is any value"),
        (
            {"a": "1,2,3,4,5,6,7,8,9,10,11", "b": "1,2,3,4,5,6,7,8,9,10"},
            "spec.subnetSelector: lists more",
        ),
        ({"a": 1}, "spec.subnetSelector.a: must be a string"),
        ({f"k{i}": "a,b" for i in range(10_000)}, "spec.subnetSelector: "),
    ],
)
def test_a_selector_that_cannot_be_looked_up_is_refused(
    selector: dict[str, Any], field: str
) -> None:
    """T-10: selectors."""
    faults = faults_of(subnetSelector=selector)
    assert faults
    assert all(fault.startswith(field) for fault in faults)


@pytest.mark.parametrize(
    "status",
    [
        "x",
        {"subnets": "x", "conditions": 5},
        {"subnets": [{"id": 5, "zone": "a"}], "conditions": [{"type": {}}]},
        {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "long ago"}]},
    ],
)
def test_rubbish_in_the_status_counts_as_absent(status: object) -> None:
    """The status is ours to mend; the spec stays good."""
    found = parse_node_template({**template(), "status": status}).require("class")
    assert (found.subnets, found.ready, found.fault) == ((), False, "")


def test_a_class_that_is_not_ready_says_why() -> None:
    raw = template()
    raw["status"] = {"conditions": [{"type": "Ready", "status": "False", "message": "no subnet"}]}
    found = parse_node_template(raw).require("class")
    assert (found.ready, found.fault) == (False, "no subnet")


def own_words(node_class: NodeClass) -> NodeClass:
    """Without what the API server and the status add; the order of alternatives means nothing."""
    return msgspec.structs.replace(
        node_class, uid="", generation=0, subnets=(), ready=False, fault="", terminating=False
    )


def assert_comes_back(node_class: NodeClass) -> None:
    written = node_template_object(node_class)
    assert written.notes == ()
    assert parse_node_template(written.document).record == own_words(node_class)
    assert AWSNodeTemplate.model_validate(written.document)


def test_a_full_template_comes_back_from_its_document() -> None:
    assert_comes_back(
        class_of(
            subnetSelector={"aws::ids": "subnet-1,subnet-2"},
            securityGroupSelector={"aws::name": "a*,b", "team": "*"},
            amiSelector={
                "aws::name": "x",
                "aws::owners": "self,amazon",
                "a": "1,2",
                "b": "3,4",
                "c": "*",
            },
            amiFamily="Bottlerocket",
            instanceProfile="p",
            userData="data",
            context="c",
            detailedMonitoring=True,
            tags={"Name": "x"},
            metadataOptions={"httpProtocolIPv6": "enabled"},
            **volume(volumeSize=2 * 10**9, kmsKeyID="k", encrypted=False, deleteOnTermination=True),
        )
    )


def test_a_template_with_a_launch_template_comes_back() -> None:
    """T-07: not even the default family may be written then."""
    spec = {"subnetSelector": DISCOVERY, "launchTemplate": "mine"}
    assert_comes_back(parse_node_template(document(spec)).require("class"))


def v1_class(**change: Any) -> NodeClass:
    said: dict[str, Any] = {
        "uid": "",
        "name": "one",
        "generation_api": V1,
        "subnet_terms": (SelectorTerm(tags=DISCOVERY),),
        "security_group_terms": (SelectorTerm(tags=DISCOVERY),),
        "instance_profile": "p",
    }
    return NodeClass(**{**said, **change})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"role": "r"}, "spec.role"),
        ({"kubelet": {"maxPods": 5}}, "spec.kubelet"),
        ({"associate_public_ip": False}, "spec.associatePublicIPAddress"),
        ({"ip_prefix_count": 1}, "spec.ipPrefixCount"),
        ({"instance_store_policy": "RAID0"}, "spec.instanceStorePolicy"),
        ({"network_interfaces": ({"deviceIndex": 0},)}, "spec.networkInterfaces"),
        ({"connection_tracking": {"udpTimeout": 30}}, "spec.connectionTracking"),
        ({"cpu_options": {"nestedVirtualization": "enabled"}}, "spec.cpuOptions"),
        ({"enclave_options": {"enabled": True}}, "spec.enclaveOptions"),
        (
            {"reservation_terms": (SelectorTerm(id="cr-1"),)},
            "spec.capacityReservationSelectorTerms",
        ),
        ({"placement_group": {"name": "x"}}, "spec.placementGroupSelector"),
        ({"image_terms": (SelectorTerm(alias="al2@v20240703"),)}, "spec.amiSelectorTerms"),
        ({"image_terms": (SelectorTerm(alias="al2@latest"),)}, "spec.amiSelectorTerms"),
        ({"image_terms": (SelectorTerm(ssm_parameter="/x"),)}, "spec.amiSelectorTerms"),
        ({"ami_family": "Windows2025"}, "spec.amiFamily"),
        ({"tags": {"karpenter.sh/managed-by": "x"}}, "spec.tags[karpenter.sh/managed-by]"),
        (
            {
                "block_device_mappings": (
                    {
                        "deviceName": "/dev/xvda",
                        "ebs": {"snapshotID": "s", "volumeInitializationRate": 100},
                    },
                )
            },
            "spec.blockDeviceMappings[0].ebs.volumeInitializationRate",
        ),
    ],
)
def test_what_only_v1_can_say_is_noted(change: dict[str, Any], field: str) -> None:
    """MAP-04: from v1alpha5 to v1."""
    (note,) = node_template_object(v1_class(**change)).notes
    assert str(note).startswith(f"{field}: ")


def test_the_hop_limit_of_v1_is_written_out() -> None:
    """MAP-04: what v1 leaves unsaid is 1 hop, what v1alpha1 leaves unsaid is 2."""
    document = node_template_object(v1_class()).document
    assert document["spec"]["metadataOptions"] == {"httpPutResponseHopLimit": 1}


def test_the_hash_follows_what_instances_are_made_with() -> None:
    """EC-22: what selectors find drifts by itself, so they do not count; a spelled-out default is no change."""
    said = class_of()
    assert class_of(subnetSelector={"a": "b"}, amiFamily="AL2").hash == said.hash
    assert class_of(amiFamily="AL2023").hash != said.hash
    assert class_of(userData="x").hash != said.hash


@given(objects(*WORDS), json_values(*WORDS))
def test_no_template_stops_the_reader(spec: dict[str, Any], status: object) -> None:
    """F27: faults, or a class that survives the mirror and comes back from the document made of it."""
    node_class = parse_node_template({**template(**spec), "status": status}).record
    if node_class is not None:
        assert decode_record("nodeclasses", msgspec.json.encode(node_class)) == node_class
        assert_comes_back(node_class)


@given(json_values(*WORDS), json_values(*WORDS))
def test_no_spec_of_any_type_stops_the_reader(spec: object, metadata: object) -> None:
    """F27: faulty objects."""
    assert parse_node_template({"metadata": metadata, "spec": spec}).faults
