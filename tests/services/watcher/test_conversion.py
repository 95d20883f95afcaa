"""Kubernetes objects to mirror records: a bad object is a fault of its own (F27)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.watcher.conversion import KINDS
from services.watcher.optional_kinds import kinds
from shared.domain.feature_gates import FeatureGates
from shared.domain.records import RECORD_TYPES

KIND = {kind.resource.kind: kind for kind in KINDS}
META = {
    "name": "one",
    "uid": "u",
    "namespace": "default",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}
TEMPLATE: dict[str, Any] = {"template": {"spec": {"containers": []}}}
SELECTORS = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
TERMS = [{"tags": {"a": "b"}}]
GOOD: dict[str, dict[str, Any]] = {
    "Pod": {"containers": []},
    "Node": {},
    "DaemonSet": TEMPLATE,
    "Provisioner": {"providerRef": {"name": "default"}},
    "NodePool": {"template": {"spec": {"nodeClassRef": CLASS_REF, "requirements": []}}},
    "AWSNodeTemplate": SELECTORS,
    "EC2NodeClass": {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": TERMS,
        "securityGroupSelectorTerms": TERMS,
        "role": "nodes",
    },
    "Machine": {},
    "NodeClaim": {"nodeClassRef": CLASS_REF, "requirements": []},
    "PersistentVolumeClaim": {"storageClassName": "gp3"},
    "PersistentVolume": {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}},
    "StorageClass": {},
    "CSINode": {"drivers": []},
    "NodeOverlay": {"requirements": [], "price": "0.1"},
}


def raw(spec: Any) -> dict[str, Any]:
    return {"metadata": META, "spec": spec}


def test_every_record_type_has_its_kinds() -> None:
    assert {kind.name for kind in KINDS} == set(RECORD_TYPES)


@pytest.mark.parametrize("kind", sorted(GOOD))
def test_a_good_object_becomes_the_record_of_its_kind(kind: str) -> None:
    converted = KIND[kind].convert(raw(GOOD[kind]))
    assert converted.faults == ()
    assert isinstance(converted.record, RECORD_TYPES[KIND[kind].name])


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("Provisioner", {}, "spec.providerRef"),
        ("NodePool", {}, "spec.template"),
        ("AWSNodeTemplate", {}, "spec.subnetSelector"),
        ("EC2NodeClass", {}, "spec.amiSelectorTerms"),
        ("Machine", {"resources": {"requests": {"cpu": "x"}}}, "spec.resources.requests.cpu"),
        ("NodeClaim", {"expireAfter": "soon"}, "spec.expireAfter"),
        ("DaemonSet", {"template": {"spec": {"overhead": {"cpu": "x"}}}}, "spec.overhead.cpu"),
        ("PersistentVolumeClaim", {"volumeName": 1}, "spec.volumeName"),
        ("PersistentVolume", {"csi": 1}, "spec.csi"),
        ("CSINode", {"drivers": 1}, "spec.drivers"),
    ],
)
def test_a_bad_object_is_no_record_and_names_the_field(
    kind: str, spec: dict[str, Any], field: str
) -> None:
    """F27: it is skipped, the others go on."""
    converted = KIND[kind].convert(raw(spec))
    assert converted.record is None
    assert any(str(fault).strip("[").startswith(field) for fault in converted.faults)


def test_overlays_are_watched_only_where_they_count() -> None:
    """OPS-02, NO-01: a cluster without the gate need not know the kind; one that is being deleted counts no more."""
    watched = {
        gate: {kind.resource.kind for kind in kinds(FeatureGates(node_overlay=gate))}
        for gate in (False, True)
    }
    assert watched[True] - watched[False] == {"NodeOverlay"}
    overlay = raw(GOOD["NodeOverlay"])
    overlay["metadata"] = {**META, "deletionTimestamp": "2026-01-01T00:00:01Z"}
    assert KIND["NodeOverlay"].convert(overlay).record is None


def test_buffers_and_workloads_are_watched_only_where_they_count() -> None:
    """OPS-02, GAT-02: a cluster without the gate need not know CapacityBuffers, nor show its workloads."""
    watched = {
        gate: {kind.resource.kind for kind in kinds(FeatureGates(capacity_buffer=gate))}
        for gate in (False, True)
    }
    assert watched[True] - watched[False] == {
        "CapacityBuffer", "PodTemplate", "Deployment", "ReplicaSet", "StatefulSet",
    }  # fmt: skip
    alone = {kind.resource.kind for kind in kinds(FeatureGates(provisioning_request=True))}
    assert alone - watched[False] == {"ProvisioningRequest", "PodTemplate"}
    for gate, kind in (
        ("pod_group", "PodGroup"),
        ("workload", "Workload"),
        ("vertical_pod_autoscaler", "VerticalPodAutoscaler"),
    ):
        with_it = {one.resource.kind for one in kinds(FeatureGates(**{gate: True}))}
        assert with_it - watched[False] == ({kind, "PodGroup"} if gate == "workload" else {kind})
    gates = FeatureGates(
        capacity_buffer=True,
        node_overlay=True,
        provisioning_request=True,
        pod_group=True,
        workload=True,
        vertical_pod_autoscaler=True,
    )
    assert len(kinds(gates, devices=True)) == len(KINDS)


def test_devices_are_watched_only_where_they_count() -> None:
    """POD-08: a cluster older than the kinds need not know them."""
    alone = {kind.resource.kind for kind in kinds(FeatureGates(), devices=True)}
    assert alone - {kind.resource.kind for kind in kinds(FeatureGates())} == {
        "DeviceClass", "DeviceTemplate", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate",
    }  # fmt: skip


def test_a_bad_pod_is_a_record_that_says_what_is_wrong() -> None:
    """POD-03: a faulty pod is left out."""
    converted = KIND["Pod"].convert(raw({"overhead": {"cpu": "x"}}))
    assert converted.record is not None
    assert converted.record.faults


def test_only_what_scheduling_needs_travels() -> None:
    """No environment, no commands."""
    container = {"name": "c", "env": [{"name": "TOKEN", "value": "secret"}], "command": ["secret"]}
    record = KIND["Pod"].convert(raw({"containers": [container]})).record
    assert "secret" not in repr(record)


def test_an_object_is_known_by_namespace_and_name_and_where_generations_meet_by_kind() -> None:
    """MAP-01: a Provisioner and a NodePool of one name are two pools."""
    assert KIND["Pod"].key({"metadata": {"namespace": "a", "name": "b"}}) == "a/b"
    claim = {"metadata": {"namespace": "a", "name": "b"}}
    assert KIND["PersistentVolumeClaim"].key(claim) == "a/b"
    assert KIND["Node"].key({"metadata": {"name": "b"}}) == "b"
    assert KIND["Provisioner"].key({"metadata": {"name": "b"}}) == "Provisioner/b"
    assert KIND["NodePool"].key({"metadata": {"name": "b"}}) == "NodePool/b"


@pytest.mark.parametrize("kind", ["AWSNodeTemplate", "EC2NodeClass"])
def test_user_data_stays_out_of_the_mirror(kind: str) -> None:
    """Tokens stand in it, and whoever may read Redis could read them."""
    spec = GOOD[kind] | {"userData": "#!/bin/sh\necho a-secret\n"}
    record = KIND[kind].convert(raw(spec)).record
    assert b"a-secret" not in msgspec.json.encode(record)
    without = KIND[kind].convert(raw(GOOD[kind])).record
    assert record is not None
    assert without is not None
    assert record.hash != without.hash  # a change of it is seen all the same
