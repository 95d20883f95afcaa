"""The CRDs of EC2NodeClass and LaunchRecord: what an API server makes of them (EC-01..EC-16, F1)."""

from __future__ import annotations

from typing import Any

import pytest

from local.cluster.crd.schemas import Validator, prune, with_defaults
from shared.api.crd.definitions import custom_resource_definition, root_schema
from shared.api.schema.kinds import Resource
from shared.api.schema.launch_record import LaunchRecord
from shared.api.schema.v1.ec2_node_class import EC2NodeClass
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from tests.shared.api.documents.node_classes import EVERYTHING, LEAST, changed
from tests.support.cluster.structural_rules import (
    cost_faults,
    default_faults,
    rule_faults,
    structure_faults,
)

BOTH = pytest.mark.parametrize("kind", [EC2NodeClass, LaunchRecord])


@pytest.fixture(scope="module")
def server() -> Validator:
    return Validator(root_schema(EC2NodeClass))


def stored(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "one"}, "spec": spec}


@BOTH
def test_an_api_server_takes_the_definition(kind: type[Resource]) -> None:
    schema = root_schema(kind)
    for faults in (structure_faults, default_faults, rule_faults, cost_faults):
        assert list(faults(schema)) == []
    assert Validator(schema).rule_errors == []


def test_names_and_columns_are_those_of_karpenter() -> None:
    """API-02: kinds of v1."""
    spec = custom_resource_definition(EC2NodeClass)["spec"]
    assert (spec["group"], spec["scope"]) == ("karpenter.k8s.aws", "Cluster")
    assert spec["names"]["plural"] == "ec2nodeclasses"
    assert spec["names"]["shortNames"] == ["ec2nc", "ec2ncs"]
    assert spec["names"]["categories"] == ["karpenter"]
    columns = spec["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"] for column in columns if not column.get("priority")]
    assert shown == ["Ready", "Age"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        EVERYTHING | {"role": None},
        {"instanceProfile": "a"},
        {"role": None},
        {"amiFamily": "Bottlerocket"},
        {"amiFamily": "Custom"},
        {"amiFamily": "AL2023"},
        {"amiSelectorTerms": [{"id": "ami-1"}]},
        {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2"},
        {"amiSelectorTerms": [{"id": "ami-1"}, {"alias": "al2023@latest"}]},
        {"amiSelectorTerms": [{"alias": "windows2022@latest"}], "amiFamily": "Windows2022"},
        {"amiSelectorTerms": [{"alias": "windows2022@1"}]},
        {"amiSelectorTerms": [{"alias": "al2023"}]},
        {"amiSelectorTerms": [{"owner": "self"}], "amiFamily": "AL2"},
        {"amiSelectorTerms": [{"id": "ami-1", "name": "a"}], "amiFamily": "AL2"},
        {"subnetSelectorTerms": [{}]},
        {"subnetSelectorTerms": [{"tags": {"a": ""}}]},
        {"subnetSelectorTerms": [{"tags": {"": "a"}}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1", "name": "a"}]},
        {"placementGroupSelector": {"id": "pg-1", "name": "a"}},
        {"tags": {"": "a"}},
        {"tags": {"karpenter.sh/nodeclaim": "a"}},
        {"tags": {"kubernetes.io/cluster/a": "a"}},
        {"tags": {"kubernetes.io/cluster/": "a"}},
        {"kubelet": {"maxPods": 3, "cpuManagerPolicy": "static"}},
        {"kubelet": {"evictionSoft": {"pid.available": "5%"}}},
        {"blockDeviceMappings": [{"deviceName": "a", "ebs": {}}]},
        {"blockDeviceMappings": [{"deviceName": "a", "ebs": {"volumeSize": "1Gi"}, "rootVolume": True}] * 2},
        {"blockDeviceMappings": [{"deviceName": "a", "ebs": {"volumeSize": "1Gi"}, "rootVolume": False}] * 2},
        {
            "blockDeviceMappings": [
                {"deviceName": "a", "ebs": {"volumeSize": "1Gi", "volumeInitializationRate": 100}}
            ]
        },
        {"connectionTracking": {"udpTimeout": 45}},
        {"connectionTracking": {"udpTimeout": "45s"}},
    ],
    ids=str,
)  # fmt: skip
def test_the_api_server_and_the_parser_say_the_same(
    server: Validator, fields: dict[str, Any]
) -> None:
    """The CEL of a rule means what its function means."""
    spec = changed(**fields)
    refused = bool(server.errors(stored(spec)))
    assert refused is bool(parse_ec2_node_class(stored(spec)).faults)


def test_the_api_server_fills_in_metadata_options() -> None:
    """EC-13: metadata options."""
    filled = with_defaults(stored(LEAST), root_schema(EC2NodeClass))["spec"]
    assert filled["metadataOptions"]["httpPutResponseHopLimit"] == 1
    partly = with_defaults(stored(changed(metadataOptions={})), root_schema(EC2NodeClass))["spec"]
    assert partly["metadataOptions"] == filled["metadataOptions"]


def test_only_settings_of_the_kubelet_may_be_unknown() -> None:
    """EC-10: kubelet settings."""
    spec = changed(kubelet={"topologyManagerPolicy": "none"}, roles="a")
    _, dropped = prune(stored(spec), root_schema(EC2NodeClass))
    assert dropped == ["spec.roles"]


RECORD: dict[str, Any] = {
    "machines": [{"name": "one", "uid": "uid-1"}, {"name": "two", "uid": "u", "kind": "NodeClaim"}],
    "clientToken": "token",
    "attempt": 0,
    "request": {"Type": "instant", "Overrides": [{"Priority": 1.5}]},
    "epoch": 0,
    "createdAt": "2026-01-01T00:00:00Z",
}


def test_a_launch_record_keeps_the_whole_request() -> None:
    schema = root_schema(LaunchRecord)
    kept, dropped = prune(stored(RECORD), schema)
    assert (kept, dropped) == (stored(RECORD), [])
    assert not Validator(schema).errors(stored(RECORD))


@pytest.mark.parametrize(
    "fields",
    [
        {"machines": []},
        {"clientToken": "t" * 65},
        {"attempt": -1},
        {"request": []},
        {"machines": [{"name": "a"}]},
    ],
)
def test_a_launch_record_that_cannot_be_is_refused(fields: dict[str, Any]) -> None:
    assert Validator(root_schema(LaunchRecord)).errors(stored({**RECORD, **fields}))
