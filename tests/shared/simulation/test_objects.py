"""Missing metadata is filled in as an API server would; invalid objects become faults with their names."""

from __future__ import annotations

from typing import Any

import pytest

from shared.simulation.objects import collect
from tests.shared.simulation.documents import node, pod
from tests.support.cluster.others import others_claim, others_pool


def test_a_pod_from_a_file_gets_namespace_uid_and_age() -> None:
    found = collect([pod("web")]).of("Pod")[0]
    assert found.name == "default/web"
    assert found.metadata["uid"] == "simulated:Pod/default/web"
    assert found.metadata["creationTimestamp"] == "1970-01-01T00:00:00Z"


def test_what_is_said_stays() -> None:
    said = {"uid": "u-1", "namespace": "shop", "creationTimestamp": "2024-01-31T12:00:00Z"}
    found = collect([pod("web", meta=said)]).of("Pod")[0].metadata
    assert {key: found[key] for key in said} == said


def test_a_uid_that_was_copied_with_its_manifest_is_replaced() -> None:
    found = collect([pod("a", meta={"uid": "u-1"}), pod("b", meta={"uid": "u-1"})])
    assert [one.metadata["uid"] for one in found.of("Pod")] == ["u-1", "simulated:Pod/default/b"]


def test_generated_names_are_the_same_on_every_run() -> None:
    raw = {**pod(), "metadata": {"generateName": "web-"}}
    names = [[one.name for one in collect([raw, raw]).of("Pod")] for _ in range(2)]
    assert names == [["default/web-00000", "default/web-00001"]] * 2


def test_an_object_that_is_there_twice_counts_once() -> None:
    found = collect([pod("web"), pod("web"), pod("web", meta={"namespace": "shop"})])
    assert len(found.of("Pod")) == 2
    assert [(one.name, one.field) for one in found.faults] == [("default/web", "metadata.name")]


def test_lists_are_taken_apart() -> None:
    plain = {"kind": "List", "apiVersion": "v1", "items": [pod("a"), node()]}
    bare = {"metadata": {"name": "b"}, "spec": {"containers": []}}
    found = collect([plain, {"kind": "PodList", "apiVersion": "v1", "items": [bare]}])
    assert [one.name for one in found.of("Pod", "Node")] == ["default/a", "default/b", "node-1"]


def test_a_json_list_of_objects_is_taken_apart() -> None:
    """As ``POST /simulate`` takes it."""
    found = collect([[pod("a"), {"kind": "List", "items": [pod("b")]}], pod("c"), [7]])
    assert [one.name for one in found.of("Pod")] == ["default/a", "default/b", "default/c"]
    assert [one.message for one in found.faults] == ["must be an object"]


def test_other_kinds_play_no_part_and_are_counted() -> None:
    namesake = {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "metadata": {"name": "a"},
    }
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
    found = collect([namesake, service, service])
    assert (found.ignored, found.faults) == ({"Machine": 1, "Service": 2}, [])


def test_objects_of_v1beta1_are_read_as_v1_and_what_is_lost_is_a_fault() -> None:
    """MAP-03: here the kubelet settings, because their class is not given."""
    spec = {"template": {"spec": {"nodeClassRef": {"name": "a"}, "kubelet": {"maxPods": 5}}}}
    old = {"kind": "NodePool", "apiVersion": "karpenter.sh/v1beta1", "metadata": {"name": "a"}}
    found = collect([{**old, "spec": spec}])
    (pool,) = found.of("NodePool")
    assert pool.raw["apiVersion"] == "karpenter.sh/v1"
    assert [one.field for one in found.faults] == ["spec.template.spec.kubelet"]


@pytest.mark.parametrize(
    ("kind", "version", "told"),
    [
        ("NodePool", "karpenter.sh/v1alpha4", "write karpenter.sh/v1"),
        ("InstanceType", "dovetail.sh/v1", "write dovetail.sh/v1alpha1"),
        ("NodePol", "karpenter.sh/v1", "did you mean NodePool?"),
    ],
)
def test_kinds_of_ours_that_are_misspelt_are_faults(kind: str, version: str, told: str) -> None:
    found = collect([{"apiVersion": version, "kind": kind, "metadata": {"name": "a"}}])
    assert told in found.faults[0].message


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (7, ""),
        ("text", ""),
        ({}, "kind"),
        ({"kind": "Pod"}, "metadata.name"),
        ({"kind": "Pod", "metadata": []}, "metadata"),
        ({"kind": "Pod", "metadata": {"name": 7}}, "metadata.name"),
        ({"kind": "Pod", "metadata": {"name": "Not_A_Name"}}, "metadata.name"),
        ({"kind": "Pod", "metadata": {"name": "a", "namespace": "-"}}, "metadata.namespace"),
        ({"kind": "Pod", "metadata": {"name": "a", "labels": {"a": 1}}}, "metadata.labels[a]"),
        ({"kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "now"}},
         "metadata.creationTimestamp"),
        ({"kind": "Pod", "metadata": {"name": "a", "ownerReferences": [{}]}},
         "metadata.ownerReferences[0]"),
        ({"kind": "Pod", "metadata": {"name": "\ud800"}}, ""),
        ({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"a": 1 << 20_000}}, ""),
    ],
)  # fmt: skip
def test_bad_metadata_is_a_fault_of_its_object_only(document: Any, field: str) -> None:
    found = collect([document, pod("good")])
    assert [one.field for one in found.faults] == [field]
    assert [one.name for one in found.of("Pod")] == ["default/good"]


def test_objects_of_eks_auto_mode_are_counted_and_not_used() -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **others_pool("general-purpose")}
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", **others_claim("a")}
    found = collect([pool, claim, node("theirs")])
    assert found.ignored == {"NodePool": 1, "NodeClaim": 1}
    assert not found.of("NodePool", "NodeClaim")
    assert not found.faults
