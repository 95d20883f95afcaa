"""Objects of v1beta1 become objects of v1 that mean the same (MAP-03)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.conversion.convert import convert
from shared.api.conversion.relations import without_v1beta1
from shared.api.registry import check, warnings
from tests.shared.api.conftest import json_values
from tests.shared.api.documents import v1beta1

REFERENCE = {"name": "default"}


def pool(name: str = "default", disruption: Any = None, **machine: Any) -> dict[str, Any]:
    machine = {"requirements": [], "nodeClassRef": REFERENCE, **machine}
    spec: dict[str, Any] = {"template": {"spec": machine}}
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {**spec, **({} if disruption is None else {"disruption": disruption})},
    }


def node_class(**spec: Any) -> dict[str, Any]:
    terms = [{"tags": {"karpenter.sh/discovery": "c"}}]
    least = {"subnetSelectorTerms": terms, "securityGroupSelectorTerms": terms, "role": "nodes"}
    return {
        "apiVersion": "karpenter.k8s.aws/v1beta1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {**least, "amiFamily": "AL2023", **spec},
    }


def claim(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1beta1",
        "kind": "NodeClaim",
        "metadata": {"name": "default-x", "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"requirements": [], "nodeClassRef": REFERENCE, **spec},
    }


def spec_of(*documents: dict[str, Any], at: int = 0) -> dict[str, Any]:
    spec: dict[str, Any] = convert(documents, "v1")[at].document["spec"]
    return spec


def faults(document: dict[str, Any]) -> list[str]:
    return [str(one) for one in check(document)]


any_object = st.one_of(v1beta1.node_pools, v1beta1.node_claims, v1beta1.node_classes)


@given(any_object)
def test_any_object_is_valid_and_so_is_what_it_becomes(document: dict[str, Any]) -> None:
    assert check(document) == []
    (written,) = convert([document], "v1")
    assert check(written.document) == []
    assert written.document["apiVersion"] in ("karpenter.sh/v1", "karpenter.k8s.aws/v1")
    assert written.document["metadata"]["name"] == document["metadata"]["name"]


@given(v1beta1.node_pools)
def test_every_field_of_a_pool_is_kept_or_named_in_a_note(document: dict[str, Any]) -> None:
    (written,) = convert([document], "v1")
    old, new = document["spec"], written.document["spec"]
    before, after = old["template"]["spec"], new["template"]["spec"]
    for name in ("weight", "limits"):
        assert old.get(name) == new.get(name)
    for name in ("requirements", "taints", "startupTaints"):
        assert before.get(name) == after.get(name)
    assert old["template"]["metadata"] == new["template"]["metadata"]
    assert after["nodeClassRef"]["name"] == before["nodeClassRef"]["name"]
    disruption = old.get("disruption", {})
    assert after.get("expireAfter") == disruption.get("expireAfter")
    assert new["disruption"].get("budgets") == disruption.get("budgets")
    assert new["disruption"]["consolidateAfter"] == disruption.get("consolidateAfter", "0s")
    told = " ".join(map(str, written.notes))
    assert all(f'"{name}"' in told for name in before.get("kubelet", {}))


@given(v1beta1.node_classes)
def test_every_field_of_a_class_is_kept(document: dict[str, Any]) -> None:
    (written,) = convert([document], "v1")
    old, new = document["spec"], written.document["spec"]
    same = old.keys() - {"metadataOptions", "amiSelectorTerms"}
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert new["amiSelectorTerms"] == old.get("amiSelectorTerms", new["amiSelectorTerms"])
    assert old.get("metadataOptions", {}).items() <= new["metadataOptions"].items()


@given(
    json_values("spec", "template", "disruption", "kubelet", "nodeClassRef", "amiFamily"),
    any_object,
)
def test_nothing_that_a_file_holds_makes_it_raise(junk: Any, document: dict[str, Any]) -> None:
    broken = [
        {**document, "spec": junk},
        {**document, "metadata": junk},
        {**document, "spec": {**document["spec"], "template": junk, "disruption": junk}},
    ]
    assert all(isinstance(one, list) for one in map(check, broken))
    assert len(without_v1beta1([*broken, junk])) == 4


def test_the_lifetime_moves_into_the_template_and_the_policy_gets_its_new_name() -> None:
    old = {"consolidationPolicy": "WhenUnderutilized", "expireAfter": "48h"}
    spec = spec_of(pool(disruption=old))
    assert spec["template"]["spec"]["expireAfter"] == "48h"
    assert spec["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
    }


def test_consolidation_that_was_switched_off_stays_off() -> None:
    old = {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never"}
    assert spec_of(pool(disruption=old))["disruption"]["consolidateAfter"] == "Never"


def test_a_reference_gets_group_and_kind() -> None:
    reference = spec_of(pool())["template"]["spec"]["nodeClassRef"]
    assert reference == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def test_kubelet_settings_of_the_pool_move_to_its_class() -> None:
    spec = spec_of(pool(kubelet=v1beta1.KUBELET), node_class(), at=1)
    assert spec["kubelet"] == v1beta1.KUBELET
    assert "kubelet" not in spec_of(pool(kubelet=v1beta1.KUBELET), node_class())["template"]["spec"]


def test_pools_of_one_class_with_different_kubelet_settings_need_a_class_each() -> None:
    both = [pool("a", kubelet={"maxPods": 10}), pool("b"), node_class()]
    first, _, made = convert(both, "v1")
    assert "create a separate class for this pool" in str(first.notes[0])
    assert "kubelet" not in made.document["spec"]


def test_an_image_family_alone_becomes_its_alias() -> None:
    assert spec_of(node_class())["amiSelectorTerms"] == [{"alias": "al2023@latest"}]
    terms = [{"id": "ami-0123456789abcdef0"}]
    assert spec_of(node_class(amiSelectorTerms=terms))["amiSelectorTerms"] == terms


def test_the_older_hop_limit_is_written_out() -> None:
    assert spec_of(node_class())["metadataOptions"]["httpPutResponseHopLimit"] == 2


def test_a_tag_that_v1_sets_itself_is_left_out_and_named() -> None:
    old = node_class(tags={"eks:eks-cluster-name": "c", "team": "a"})
    (written,) = convert([old], "v1")
    assert written.document["spec"]["tags"] == {"team": "a"}
    assert "eks:eks-cluster-name" in str(written.notes[0])


def test_a_claim_gets_the_lifetime_of_its_pool() -> None:
    with_pool = spec_of(pool(disruption={"expireAfter": "48h"}), claim(), at=1)
    assert with_pool["expireAfter"] == "48h"
    (alone,) = convert([claim(kubelet={"maxPods": 5})], "v1")
    assert alone.document["spec"]["expireAfter"] == "Never"
    assert [note.path for note in alone.notes] == [("spec", "expireAfter"), ("spec", "kubelet")]


def test_it_becomes_v1alpha5_too() -> None:
    provisioner, template = convert([pool(kubelet={"maxPods": 9}), node_class()], "v1alpha5")
    assert provisioner.document["kind"] == "Provisioner"
    assert provisioner.document["spec"]["kubeletConfiguration"] == {"maxPods": 9}
    assert template.document["spec"]["amiFamily"] == "AL2023"
    assert check(provisioner.document) == check(template.document) == []


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (pool(disruption={"expireAfter": "soon"}), "spec.disruption.expireAfter: 'soon' has the wrong format; write"),
        (pool(disruption={"consolidationPolicy": "WhenEmpty"}), "spec.disruption.consolidateAfter: is required"),
        (pool(disruption={"consolidationPolicy": "Sometimes"}), "spec.disruption.consolidationPolicy: 'Sometimes'"),
        (pool(disruption={"consolidateAfter": "30s"}), "spec.disruption.consolidateAfter: cannot be combined"),
        (pool(kubelet={"maxPod": 5}), "spec.template.spec.kubelet.maxPod: unknown field; did you mean maxPods?"),
        (pool(expireAfter="1h"), "spec.template.spec.expireAfter: karpenter.sh/v1beta1 does not have this field"),
        (pool(nodeClassRef={"name": "a", "group": "b"}), "nodeClassRef.group: karpenter.sh/v1beta1 does not"),
        (pool(taint=[]), "spec.template.spec.taint: unknown field; did you mean taints?"),
        (node_class(amiSelectorTerms=[{"alias": "al2@latest"}]), "spec.amiSelectorTerms[0].alias: karpenter.k8s"),
        (node_class(amiFamily="Ubuntu"), "v1 has no family Ubuntu"),
        (node_class(amiFamily="Custom"), "spec.amiSelectorTerms: is required"),
    ],
)  # fmt: skip
def test_faults_are_at_their_place_in_v1beta1(document: dict[str, Any], fault: str) -> None:
    assert any(fault in one for one in faults(document)), faults(document)


def test_placeholders_are_warned_about() -> None:
    assert "placeholder" in str(warnings(node_class(role="${ROLE}")))
