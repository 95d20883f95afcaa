"""EC2NodeClass <-> NodeClass (EC-01..EC-15, EC-22, MAP-04)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.api.v1.ec2_node_classes import ec2_node_class_object, parse_ec2_node_class
from shared.domain.pools.nodepools import NodeClass, SelectorTerm, SubnetRef
from tests.shared.api.conftest import document, json_values, objects
from tests.shared.api.documents.node_classes import DISCOVERY, EVERYTHING, LEAST, changed


def faults_of(spec: Any) -> list[str]:
    return [str(fault) for fault in parse_ec2_node_class(document(spec)).faults]


def record(spec: Any, **status: Any) -> NodeClass:
    return parse_ec2_node_class(document(spec, status or None)).require("class")


def test_the_least_a_class_says() -> None:
    found = record(LEAST)
    assert (found.key, found.uid) == ("EC2NodeClass/one", "uid-1")
    assert found.subnet_terms == (SelectorTerm(tags=DISCOVERY),)
    assert found.image_terms == (SelectorTerm(alias="al2023@latest"),)
    assert found.role == "demo-node"


def test_metadata_options_have_defaults_with_one_hop() -> None:
    """EC-13: metadata options."""
    defaults = {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }
    assert record(LEAST).metadata_options == defaults
    some = changed(metadataOptions={"httpTokens": "optional"})
    assert record(some).metadata_options == {**defaults, "httpTokens": "optional"}


def test_everything_is_written_as_it_was_read() -> None:
    written = ec2_node_class_object(record(EVERYTHING))
    assert not written.notes
    assert written.document["spec"] == EVERYTHING


def test_a_reservation_is_owned_by_an_account() -> None:
    """EC-05: capacity reservation selector terms."""
    term = record(EVERYTHING).reservation_terms[1]
    assert term == SelectorTerm(tags={"team": "*"}, owner="012345678901", match_criteria="open")


@pytest.mark.parametrize(
    "name", ["subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms"]
)
def test_terms_are_required_and_bounded(name: str) -> None:
    """EC-01..EC-03: selector terms."""
    term = {"tags": {"a": "b"}}
    assert f"spec.{name}: is required" in faults_of(changed(**{name: None}))
    assert any(f"spec.{name}: has fewer" in fault for fault in faults_of(changed(**{name: []})))
    many = changed(**{name: [term] * 31}, amiFamily="AL2023")
    assert faults_of(many) == [f"spec.{name}: has more than 30 entries"]


@pytest.mark.parametrize(
    "name",
    [
        "subnetSelectorTerms", "securityGroupSelectorTerms", "amiSelectorTerms",
        "capacityReservationSelectorTerms",
    ],
)  # fmt: skip
def test_a_term_that_would_select_everything_is_refused(name: str) -> None:
    """EC-01..EC-05: selector terms and families."""
    spec = changed(amiFamily="AL2023", **{name: [{}]})
    (fault,) = faults_of(spec)
    assert fault.startswith(f"spec.{name}[0]: selects everything")
    assert faults_of(changed(amiFamily="AL2023", **{name: [{"tags": {}}]})) == [
        f"spec.{name}[0].tags: has fewer than 1 entries"
    ]


@pytest.mark.parametrize(
    ("name", "term", "path"),
    [
        ("subnetSelectorTerms", {"id": "subnet-1", "tags": {"a": "b"}}, "id"),
        ("securityGroupSelectorTerms", {"id": "sg-1", "name": "a"}, "id"),
        ("securityGroupSelectorTerms", {"name": "a", "tags": {"a": "b"}}, "name"),
        ("amiSelectorTerms", {"id": "ami-1", "owner": "self"}, "id"),
        ("amiSelectorTerms", {"alias": "al2023@latest", "name": "a"}, "alias"),
        ("amiSelectorTerms", {"ssmParameter": "/a", "tags": {"a": "b"}}, "ssmParameter"),
        ("capacityReservationSelectorTerms", {"id": "cr-1", "ownerID": "012345678901"}, "id"),
        ("subnetSelectorTerms", {"id": "sg-1"}, "id"),
        ("securityGroupSelectorTerms", {"id": "subnet-1"}, "id"),
        ("amiSelectorTerms", {"id": "AMI-1"}, "id"),
        ("capacityReservationSelectorTerms", {"ownerID": "1"}, "ownerID"),
        ("capacityReservationSelectorTerms", {"instanceMatchCriteria": "any"}, "instanceMatchCriteria"),
        ("subnetSelectorTerms", {"tags": {"a": ""}}, "tags.a"),
        ("subnetSelectorTerms", {"tags": {"": "a"}}, "tags[]"),
        ("subnetSelectorTerms", {"tags": {f"a{i}": "b" for i in range(21)}}, "tags"),
    ],
)  # fmt: skip
def test_fields_of_a_term_that_cannot_be(name: str, term: dict[str, Any], path: str) -> None:
    """EC-01..EC-05: selector terms and families."""
    (fault,) = faults_of(changed(amiFamily="AL2023", **{name: [term]}))
    assert fault.startswith(f"spec.{name}[0].{path}: ")


def test_an_owner_alone_selects_too_much() -> None:
    """EC-03: image selector terms."""
    (fault,) = faults_of(changed(amiFamily="AL2", amiSelectorTerms=[{"owner": "self"}]))
    assert "selects everything" in fault


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("al2023", "family@version"),
        ("al2023@", "family@version"),
        ("al2023@a@b", "family@version"),
        ("ubuntu@latest", "is not an image family"),
        (
            "bottlerocket-fips@latest",
            "'bottlerocket-fips' is not an image family; use one of al2, ",
        ),
        ("AL2023@latest", "'AL2023' is not an image family; use one of al2, al2023, "),
        ("windows2022@1.0", "windows2022@latest"),
        ("al2023@" + "1" * 30, "30 characters"),
    ],
)
def test_an_alias_is_a_family_and_a_version(alias: str, words: str) -> None:
    """EC-03: image selector terms."""
    assert any(words in fault for fault in faults_of(changed(amiSelectorTerms=[{"alias": alias}])))


def test_an_alias_is_the_only_term() -> None:
    """EC-03: image selector terms."""
    spec = changed(amiSelectorTerms=[{"id": "ami-1"}, {"alias": "al2023@latest"}])
    assert faults_of(spec) == [
        "spec.amiSelectorTerms[1].alias: an alias must be the only term; remove the others"
    ]


@pytest.mark.parametrize(
    ("alias", "family"),
    [
        ("al2@latest", "AL2"),
        ("al2023@v20240625", "AL2023"),
        ("bottlerocket@1.10.0", "Bottlerocket"),
        ("windows2019@latest", "Windows2019"),
        ("windows2022@latest", "Windows2022"),
        ("windows2025@latest", "Windows2025"),
    ],
)
def test_the_alias_tells_the_family(alias: str, family: str) -> None:
    """EC-03: image selector terms; EC-04: image families."""
    terms = [{"alias": alias}]
    assert record(changed(amiSelectorTerms=terms)).ami_family == family
    assert record(changed(amiSelectorTerms=terms, amiFamily=family)).ami_family == family
    assert record(changed(amiSelectorTerms=terms, amiFamily="Custom")).ami_family == "Custom"


def test_the_family_cannot_be_another_than_that_of_the_alias() -> None:
    """EC-04: image families."""
    assert faults_of(changed(amiFamily="Bottlerocket")) == [
        "spec.amiFamily: must be AL2023, the family of the alias al2023@latest, or Custom"
    ]


def test_without_alias_the_family_is_required() -> None:
    """EC-04: image families."""
    (fault,) = faults_of(changed(amiSelectorTerms=[{"id": "ami-1"}]))
    assert fault == "spec.amiFamily: is required unless amiSelectorTerms has an alias"


def test_a_placement_group_has_a_name_or_an_id() -> None:
    """EC-06: placement group selector."""
    assert record(changed(placementGroupSelector={"id": "pg-1"})).placement_group == {"id": "pg-1"}
    assert faults_of(changed(placementGroupSelector={"id": "pg-1", "name": "a"}))
    assert faults_of(changed(placementGroupSelector={}))


def test_nodes_have_a_role_or_an_instance_profile() -> None:
    """EC-07: role or instance profile."""
    (both,) = faults_of(changed(instanceProfile="a"))
    (neither,) = faults_of(changed(role=None))
    assert both.startswith("spec.instanceProfile: cannot be combined with role")
    assert neither.startswith("spec.role: is required")
    assert faults_of(changed(role=""))


@pytest.mark.parametrize(
    "key",
    [
        "", "eks:eks-cluster-name", "kubernetes.io/cluster/demo", "karpenter.sh/nodepool",
        "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass", "k" * 129, "aws:a", "Aws:a",
    ],
)  # fmt: skip
def test_tags_that_the_autoscaler_sets_are_refused(key: str) -> None:
    """EC-09: restricted tags."""
    (fault,) = faults_of(changed(tags={key: "a", "team": "b"}))
    assert fault.startswith("spec.tags")


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("maxPod", "write maxPods"),
        ("MaxPods", "write maxPods"),
        ("cpuManagerPolice", "write cpuManagerPolicy"),
        ("x" * 200, "see KubeletConfiguration"),
    ],
)
def test_a_mistyped_setting_of_the_kubelet_is_refused_with_the_name_nearest(
    name: str, fix: str
) -> None:
    """EC-10: the kubelet itself would ignore it, and the node take as many pods as ever."""
    (fault,) = faults_of(changed(kubelet={name: 10}))
    assert fault.startswith(f"spec.kubelet.{name}: is not a kubelet setting; {fix}")


def test_other_settings_of_the_kubelet_need_al2023() -> None:
    """EC-10: kubelet settings."""
    kubelet = {"maxPods": 3, "cpuManagerPolicy": "static"}
    assert record(changed(kubelet=kubelet)).kubelet == kubelet
    terms = [{"alias": "bottlerocket@latest"}]
    assert faults_of(changed(kubelet=kubelet, amiSelectorTerms=terms)) == [
        "spec.kubelet.cpuManagerPolicy: works with amiFamily AL2023 only, not with Bottlerocket"
    ]
    assert faults_of(changed(kubelet=kubelet, amiFamily="Custom"))


@pytest.mark.parametrize(
    ("ebs", "path"),
    [
        ({}, "ebs"),
        ({"volumeSize": "100"}, "ebs.volumeSize"),
        ({"volumeSize": 100}, "ebs.volumeSize"),
        ({"volumeSize": "65Ti"}, "ebs.volumeSize"),
        ({"volumeSize": "0Gi"}, "ebs.volumeSize"),
        ({"volumeSize": "1Gi", "volumeType": "gp9"}, "ebs.volumeType"),
        ({"volumeSize": "1Gi", "volumeInitializationRate": 100}, "ebs.volumeInitializationRate"),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 99}, "ebs.volumeInitializationRate"),
    ],
)
def test_volumes_that_cannot_be(ebs: dict[str, Any], path: str) -> None:
    """EC-12: block device mappings."""
    faults = faults_of(changed(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}]))
    assert faults
    assert all(fault.startswith(f"spec.blockDeviceMappings[0].{path}: ") for fault in faults)


@pytest.mark.parametrize("size", ["1Gi", "65536Gi", "64Ti", "70T", "99999G"])
def test_a_volume_takes_up_to_64_tebibytes(size: str) -> None:
    """EC-12: block device mappings."""
    mapping = {"deviceName": "/dev/xvda", "ebs": {"volumeSize": size}}
    assert (not faults_of(changed(blockDeviceMappings=[mapping]))) is (size != "99999G")


def test_one_volume_is_the_root() -> None:
    """EC-12: block device mappings."""
    root = {"deviceName": "/dev/xvda", "rootVolume": True, "ebs": {"volumeSize": "1Gi"}}
    assert faults_of(changed(blockDeviceMappings=[root, root])) == [
        "spec.blockDeviceMappings[1].rootVolume: only one volume can be the root volume"
    ]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("60s", 60),
        ("1h", 3600),
        (432000, 432000),
        ("59s", None),
        (432001, None),
        ("5 days", None),
        (True, None),
    ],
)
def test_timeouts_of_connections_have_bounds(written: Any, seconds: int | None) -> None:
    """EC-14: network interfaces and CPU options."""
    spec = changed(connectionTracking={"tcpEstablishedTimeout": written})
    if seconds is None:
        (fault,) = faults_of(spec)
        assert fault.startswith("spec.connectionTracking.tcpEstablishedTimeout: ")
    else:
        assert record(spec).connection_tracking == {"tcpEstablishedTimeout": seconds}


def test_network_interfaces_are_bounded() -> None:
    """EC-14: network interfaces and CPU options."""
    assert faults_of(changed(networkInterfaces=[{"interfaceType": "efa"}]))
    assert faults_of(changed(networkInterfaces=[{"deviceIndex": -1}]))
    assert faults_of(changed(networkInterfaces=[{}] * 151))
    assert len(record(changed(networkInterfaces=[{}] * 150)).network_interfaces) == 150


def test_all_faults_are_told_at_once() -> None:
    spec = {**LEAST, "instanceProfile": "b", "tags": {"": "a"}, "context": 3}
    assert [fault.partition(":")[0] for fault in faults_of(spec)] == [
        "spec.context", "spec.instanceProfile", "spec.tags[]",
    ]  # fmt: skip


def test_a_fault_leaves_no_record() -> None:
    assert parse_ec2_node_class(document({})).record is None
    assert parse_ec2_node_class({"metadata": {"name": "one"}}).record is None


def test_status_tells_subnets_and_whether_the_class_is_ready() -> None:
    """EC-15: status of a node class; EC-16: conditions of a node class."""
    subnets = [
        {"id": "subnet-1", "zone": "eu-west-1a", "zoneID": "euw1-az1"},
        {"id": "subnet-2", "zone": "b"},
    ]
    ready = record(LEAST, subnets=subnets, conditions=[{"type": "Ready", "status": "True"}])
    assert ready.subnets == (
        SubnetRef("subnet-1", "eu-west-1a", "euw1-az1"), SubnetRef("subnet-2", "b", ""),
    )  # fmt: skip
    assert (ready.ready, ready.fault) == (True, "")
    condition = {"type": "Ready", "status": "False", "message": "no subnet"}
    unready = record(LEAST, conditions=[condition])
    assert (unready.ready, unready.fault) == (False, "no subnet")


@given(
    st.one_of(json_values("subnets", "conditions"), objects("subnets", "conditions", "id", "zone"))
)
def test_rubbish_in_the_status_counts_as_absent(status: Any) -> None:
    assert parse_ec2_node_class(document(LEAST, status)).record is not None


def test_the_hash_changes_with_what_makes_a_machine_outdated() -> None:
    """EC-22: hash of a node class."""
    first = record(LEAST).hash
    assert first
    assert record(changed(userData="x")).hash != first
    assert record(changed(kubelet={"maxPods": 3})).hash != first
    assert record(changed(ipPrefixCount=2)).hash == first, "DRF-04: it is for new machines only"
    assert record(changed(amiSelectorTerms=[{"alias": "al2@latest"}])).hash != first


@pytest.mark.parametrize(
    "fields",
    [
        {"subnetSelectorTerms": [{"id": "subnet-1"}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
        {"amiSelectorTerms": [{"alias": "al2023@v20240625"}]},
        {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2023"},
        {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
        {"placementGroupSelector": {"id": "pg-1"}},
        {"amiFamily": "AL2023"},
        {"metadataOptions": {"httpPutResponseHopLimit": 1}},
    ],
)
def test_selectors_and_spelled_out_defaults_change_no_hash(fields: dict[str, Any]) -> None:
    """EC-22: what selectors find is compared instead; a default means the same written or not."""
    assert record(changed(**fields)).hash == record(LEAST).hash


FIELDS = tuple(EVERYTHING)
WORDS = (*FIELDS, "tags", "id", "alias", "name", "ebs", "volumeSize", "rootVolume", "role")


@given(objects(*WORDS))
def test_no_spec_breaks_the_reading(spec: dict[str, Any]) -> None:
    parsed = parse_ec2_node_class(document(spec))
    assert (parsed.record is None) == bool(parsed.faults)


@given(st.sampled_from(FIELDS), json_values(*WORDS))
def test_no_field_breaks_the_reading(name: str, value: Any) -> None:
    parsed = parse_ec2_node_class(document({**EVERYTHING, name: value}))
    assert (parsed.record is None) == bool(parsed.faults)


@pytest.mark.slow
@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), -1, 10**18, "x" * 2**20, [None] * 10_000, {"\u202e": "\u05d0"}, {3: 4}, "\ud800",
        [{"tags": {str(i): "" for i in range(10_000)}}], [[[[[]]]]],
    ],
    ids=lambda value: repr(value)[:20],
)  # fmt: skip
@pytest.mark.parametrize("name", FIELDS)
def test_absurd_values_are_faults_or_text(name: str, value: Any) -> None:
    parsed = parse_ec2_node_class(document({**EVERYTHING, name: value}))
    assert (parsed.record is None) == bool(parsed.faults)
    if parsed.record is not None:
        assert parse_ec2_node_class(ec2_node_class_object(parsed.record).document).record


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from(FIELDS)), st.booleans())
def test_what_is_written_is_read_again(chosen: set[str], by_alias: bool) -> None:
    """The round trip law, for any part of everything."""
    spec = {**LEAST, **{name: EVERYTHING[name] for name in chosen}}
    if "instanceProfile" in chosen:
        del spec["role"]
    if by_alias:
        spec["amiSelectorTerms"] = LEAST["amiSelectorTerms"]
    elif "amiSelectorTerms" in chosen:
        spec["amiFamily"] = "AL2023"
    first = record(spec)
    written = ec2_node_class_object(first)
    assert not written.notes
    again = parse_ec2_node_class(json.loads(json.dumps(written.document))).require("class")
    assert again == msgspec.structs.replace(first, uid="", generation=0)


def test_a_document_is_a_copy() -> None:
    found = record(EVERYTHING)
    ec2_node_class_object(found).document["spec"]["tags"]["more"] = "x"
    assert found.tags == {"team": "a"}
