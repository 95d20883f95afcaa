"""The schemas of v1alpha5: an API server refuses with CEL what the reader refuses (P-07, P-12, T-01..T-11)."""

from __future__ import annotations

from typing import Any

import cel
import pytest

from shared.api.crd.model import UNKNOWN_FIELDS, ApiModel, read
from shared.api.schema.block_devices import EbsVolume
from shared.api.schema.v1alpha5.aws_node_template import AWSNodeTemplate, AWSNodeTemplateSpec
from shared.api.schema.v1alpha5.machine import Machine, MachineSpec
from shared.api.schema.v1alpha5.provisioner import Provisioner, ProvisionerSpec
from shared.domain import labels as keys

TAGS = {"team": "a"}
NETWORKS = {"subnetSelector": TAGS, "securityGroupSelector": TAGS}
REFERENCE = {"providerRef": {"name": "default"}}


def refused_by_cel(model: type[ApiModel], raw: dict[str, Any]) -> bool:
    return not all(cel.evaluate(rule.cel, {"self": raw}) for rule in model.RULES if rule.cel)


@pytest.mark.parametrize(
    ("model", "raw", "good"),
    [
        (ProvisionerSpec, REFERENCE, True),
        (ProvisionerSpec, {"provider": NETWORKS}, True),
        (ProvisionerSpec, {}, False),
        (ProvisionerSpec, {"provider": NETWORKS, **REFERENCE}, False),
        (ProvisionerSpec, {**REFERENCE, "consolidation": {"enabled": True}}, True),
        (ProvisionerSpec, {**REFERENCE, "consolidation": {}, "ttlSecondsAfterEmpty": 1}, True),
        (
            ProvisionerSpec,
            {**REFERENCE, "consolidation": {"enabled": False}, "ttlSecondsAfterEmpty": 1},
            True,
        ),
        (
            ProvisionerSpec,
            {**REFERENCE, "consolidation": {"enabled": True}, "ttlSecondsAfterEmpty": 1},
            False,
        ),
        (ProvisionerSpec, {**REFERENCE, "labels": {"team": "a"}}, True),
        (ProvisionerSpec, {**REFERENCE, "labels": {keys.PROVISIONER_NAME: "a"}}, False),
        (
            ProvisionerSpec,
            {**REFERENCE, "requirements": [{"key": keys.HOSTNAME, "operator": "Exists"}]},
            False,
        ),
        (AWSNodeTemplateSpec, NETWORKS, True),
        (AWSNodeTemplateSpec, {"subnetSelector": TAGS}, False),
        (AWSNodeTemplateSpec, {"securityGroupSelector": TAGS, "subnetSelector": {}}, False),
        (AWSNodeTemplateSpec, {"subnetSelector": TAGS, "launchTemplate": "x"}, True),
        (AWSNodeTemplateSpec, {**NETWORKS, "launchTemplate": "x"}, False),
        (AWSNodeTemplateSpec, {**NETWORKS, "launchTemplate": "", "userData": "x"}, True),
        (
            AWSNodeTemplateSpec,
            {"subnetSelector": TAGS, "launchTemplate": "x", "metadataOptions": {}},
            False,
        ),
        (AWSNodeTemplateSpec, {**NETWORKS, "amiFamily": "Custom"}, False),
        (AWSNodeTemplateSpec, {**NETWORKS, "amiFamily": "Custom", "amiSelector": TAGS}, True),
        (AWSNodeTemplateSpec, {**NETWORKS, "subnetSelector": {"aws-ids": "subnet-1"}}, True),
        (
            AWSNodeTemplateSpec,
            {**NETWORKS, "subnetSelector": {"aws-ids": "subnet-1, subnet-2"}},
            True,
        ),
        (AWSNodeTemplateSpec, {**NETWORKS, "subnetSelector": {"aws-ids": "subnet-1,sg-2"}}, False),
        (AWSNodeTemplateSpec, {**NETWORKS, "amiSelector": {"aws::ids": "ami-123,ami456"}}, False),
        (
            AWSNodeTemplateSpec,
            {**NETWORKS, "subnetSelector": {"aws-ids": "subnet-1", **TAGS}},
            False,
        ),
        (AWSNodeTemplateSpec, {**NETWORKS, "tags": {"Name": "x"}}, True),
        (AWSNodeTemplateSpec, {**NETWORKS, "tags": {"": "x"}}, False),
        (AWSNodeTemplateSpec, {**NETWORKS, "tags": {"kubernetes.io/cluster/a": "x"}}, False),
        (EbsVolume, {"volumeSize": "1Gi"}, True),
        (EbsVolume, {"snapshotID": "snap-1"}, True),
        (EbsVolume, {"snapshotID": ""}, False),
        (EbsVolume, {}, False),
    ],
)
def test_the_api_server_and_the_reader_refuse_the_same(
    model: type[ApiModel], raw: dict[str, Any], good: bool
) -> None:
    assert (read(model, raw)[0] is not None) is good
    assert refused_by_cel(model, raw) is not good


def test_a_misspelt_field_is_told_with_the_right_one() -> None:
    spec = {**REFERENCE, "ttlSecondAfterEmpty": 5, "provider": None}
    _, faults = read(ProvisionerSpec, spec, context=UNKNOWN_FIELDS)
    assert [str(fault) for fault in faults] == [
        "ttlSecondAfterEmpty: unknown field; did you mean ttlSecondsAfterEmpty?"
    ]


def test_keys_that_old_files_carry_in_line_are_known() -> None:
    """T-13: provider in line."""
    spec = {
        "provider": {**NETWORKS, "apiVersion": "extensions.karpenter.sh/v1alpha1", "kind": "AWS"}
    }
    assert read(ProvisionerSpec, spec, context=UNKNOWN_FIELDS)[1] == []


def test_the_kinds_are_those_of_karpenter() -> None:
    """API-01: kinds of v1alpha5."""
    infos = [kind.INFO for kind in (Provisioner, Machine, AWSNodeTemplate)]
    assert [(info.api_version, info.kind, info.plural) for info in infos] == [
        ("karpenter.sh/v1alpha5", "Provisioner", "provisioners"),
        ("karpenter.sh/v1alpha5", "Machine", "machines"),
        ("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", "awsnodetemplates"),
    ]


def test_the_columns_are_those_of_karpenter() -> None:
    """P-14, M-04: scripts read them by position."""
    first = [(column.name, column.wide) for column in Provisioner.INFO.columns[:2]]
    assert first == [("Template", False), ("Weight", True)]
    columns = Machine.INFO.columns
    assert [one.name for one in columns if not one.wide] == ["Type", "Zone", "Node", "Ready", "Age"]
    assert [one.name for one in columns if one.wide] == ["Capacity", "Provisioner", "Template"]


def machine(**spec: Any) -> dict[str, Any]:
    return {"requirements": [], **spec}


def test_a_machine_as_the_planner_writes_it_is_taken() -> None:
    """M-01, M-02: also the operators of v1 and minValues, which the planner may narrow a choice with."""
    document = {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "metadata": {"name": "default-abc"},
        "spec": machine(
            requirements=[
                {"key": keys.INSTANCE_TYPE, "operator": "In", "values": ["a", "b"], "minValues": 2},
                {"key": keys.AWS_PREFIX + "instance-cpu", "operator": "Gte", "values": ["4"]},
            ],
            resources={"requests": {"cpu": "1475m", "memory": "1686Mi", "pods": "6"}},
            taints=[{"key": "a", "effect": "NoSchedule"}],
            startupTaints=[{"key": "b", "value": "", "effect": "NoExecute"}],
            kubelet={"maxPods": 20, "containerRuntime": "containerd"},
            machineTemplateRef={
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "name": "default",
            },
        ),
        "status": {
            "nodeName": "n",
            "providerID": "aws:///us-west-2a/i-1",
            "capacity": {"cpu": "2"},
            "allocatable": {"cpu": "1930m"},
            "conditions": [{"type": "MachineLaunched", "status": "True"}],
        },
    }
    found, faults = read(Machine, document, context=UNKNOWN_FIELDS)
    assert faults == []
    assert found is not None
    assert found.status.provider_id == "aws:///us-west-2a/i-1"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({}, "requirements"),
        (machine(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), "taints[1]"),
        (machine(resources={"requests": {"cpu": "x"}}), "resources.requests.cpu"),
        (machine(machineTemplateRef={}), "machineTemplateRef.name"),
        (machine(kubelet={"maxPods": -1}), "kubelet.maxPods"),
    ],
)
def test_a_machine_written_by_hand_is_judged_by_field(spec: dict[str, Any], field: str) -> None:
    (fault,) = read(MachineSpec, spec)[1]
    assert str(fault).startswith(f"{field}: ")
