"""karpenter.sh/v1 NodePool (NP-01..NP-24, MAP-04)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from shared.api.registry import warnings
from shared.api.v1.node_pools import node_pool_object, parse_node_pool, warnings_of
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.pools.generations import V1ALPHA5
from shared.domain.pools.nodepools import BALANCED, WHEN_EMPTY, Budget, NodePool
from tests.shared.api.conftest import document
from tests.shared.api.documents.node_pools import REFERENCE, faults, parsed, pool_document

AT_ONCE = {"consolidateAfter": "0s"}


def test_the_least_that_a_pool_can_say_gets_the_defaults_of_v1() -> None:
    """NP-07..NP-10: defaults of the disruption block."""
    pool = parsed(pool_document())
    assert pool.key == "NodePool/one"
    assert pool.node_class_key == "EC2NodeClass/default"
    assert pool.expire_seconds == 720 * 3600
    assert pool.consolidation_policy == "WhenEmptyOrUnderutilized"
    assert pool.consolidate_after_seconds == 0
    assert pool.budgets == (Budget("10%"),)
    assert (pool.weight, pool.replicas, pool.termination_grace_seconds) == (0, None, None)


def test_every_field_is_read() -> None:
    """NP-01..NP-13: every field of a pool."""
    pool = parsed(
        pool_document(
            {"labels": {"team": "a"}, "annotations": {"example.com/Owner": "any text: é"}},
            {
                "requirements": [
                    {"key": "beta.kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
                    {"key": keys.INSTANCE_TYPE, "operator": "Exists", "minValues": 5},
                ],
                "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "a", "effect": "NoExecute"}],
                "expireAfter": "Never",
                "terminationGracePeriod": "1h30m",
            },
            {"resources": {"cpu": "4"}},
            disruption={
                "consolidationPolicy": "Balanced",
                "consolidateAfter": "Never",
                "budgets": [
                    {
                        "nodes": "0",
                        "reasons": ["Drifted"],
                        "schedule": "@daily",
                        "duration": "8h0m0s",
                    },
                    {},
                ],
            },
            limits={"cpu": 100, "memory": "1Gi", "nodes": "10"},
            weight=7,
        )
    )
    assert pool.labels == {"team": "a"}
    assert pool.annotations == {"example.com/Owner": "any text: é"}
    assert pool.requirements == (
        Expression(keys.ARCH, "In", ("arm64",)),
        Expression(keys.INSTANCE_TYPE, "Exists", (), 5),
    )
    assert pool.taints == (Taint("a", "NoSchedule", "b"),)
    assert pool.startup_taints == (Taint("a", "NoExecute"),)
    assert pool.expire_seconds is None
    assert pool.termination_grace_seconds == 5400
    assert (pool.consolidation_policy, pool.consolidate_after_seconds) == (BALANCED, None)
    assert pool.budgets == (Budget("0", ("Drifted",), "@daily", 8 * 3600.0), Budget())
    assert pool.limits == {"cpu": 100_000, "memory": 2**30, "nodes": 10}
    assert pool.weight == 7
    assert pool.usage == {"cpu": 4000}


def test_a_pool_without_a_class_is_refused() -> None:
    """NP-04: reference to the node class."""
    raw = document({"template": {"spec": {"requirements": []}}})
    assert faults(raw) == ["spec.template.spec.nodeClassRef: is required"]


@pytest.mark.parametrize("change", [{"group": "example.com"}, {"kind": "OtherClass"}])
def test_a_class_of_another_cloud_is_refused(change: dict[str, str]) -> None:
    """NP-23: pools that are skipped."""
    (name,) = change
    (fault,) = faults(pool_document(template={"nodeClassRef": {**REFERENCE, **change}}))
    assert fault.startswith(f"spec.template.spec.nodeClassRef.{name}: ")
    assert "is not supported" in fault


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        (pool_document({"labels": {keys.NODE_POOL: "x"}}), "spec.template.metadata.labels[karpenter.sh/nodepool]"),
        (pool_document({"labels": {"team": "not a value"}}), "spec.template.metadata.labels.team"),
        (pool_document({"labels": {str(i): "" for i in range(101)}}), "spec.template.metadata.labels"),
        (pool_document({"annotations": {"a b": ""}}), "spec.template.metadata.annotations[a b]"),
        (
            pool_document(template={"requirements": [{"key": keys.HOSTNAME, "operator": "Exists"}]}),
            "spec.template.spec.requirements[0].key",
        ),
        (
            pool_document(template={"requirements": [{"key": "x", "operator": "Gte", "values": ["-1"]}]}),
            "spec.template.spec.requirements[0].values",
        ),
        (
            pool_document(
                template={"requirements": [{"key": "x", "operator": "In", "values": ["a"], "minValues": 2}]}
            ),
            "spec.template.spec.requirements[0].minValues",
        ),
        (
            pool_document(template={"requirements": [{"key": "x", "operator": "Exists"}] * 101}),
            "spec.template.spec.requirements",
        ),
        (
            pool_document(
                template={
                    "taints": [{"key": "a", "effect": "NoSchedule"}],
                    "startupTaints": [{"key": "a", "effect": "NoSchedule"}],
                }
            ),
            "spec.template.spec.startupTaints[0]",
        ),
        (pool_document(template={"expireAfter": "30d"}), "spec.template.spec.expireAfter"),
        (
            pool_document(template={"terminationGracePeriod": "Never"}),
            "spec.template.spec.terminationGracePeriod",
        ),
        (pool_document(weight=0), "spec.weight"),
        (pool_document(weight=101), "spec.weight"),
        (pool_document(replicas=-1), "spec.replicas"),
        (pool_document(replicas=1, weight=1), "spec.weight"),
        (pool_document(replicas=1, limits={"cpu": "1"}), "spec.limits.cpu"),
        (pool_document(limits={"cpu": 2**62}), "spec.limits.cpu"),
        (pool_document(limits={"cpu": "-1"}), "spec.limits.cpu"),
        (pool_document(disruption={**AT_ONCE, "consolidationPolicy": "Always"}), "spec.disruption.consolidationPolicy"),
        (pool_document(disruption={**AT_ONCE, "budgets": [{}] * 51}), "spec.disruption.budgets"),
        (
            pool_document(disruption={**AT_ONCE, "budgets": [{"reasons": ["Empty", "Drifted", "Empty"]}]}),
            "spec.disruption.budgets[0].reasons[2]",
        ),
        (
            pool_document(None, {"taints": [{"key": "a", "value": "", "effect": "NoExecute"}]}),
            "spec.template.spec.taints[0].value",
        ),
        (pool_document(disruption={**AT_ONCE, "budgets": [{"nodes": "101%"}]}), "spec.disruption.budgets[0].nodes"),
        (pool_document(disruption={**AT_ONCE, "budgets": [{"nodes": 5}]}), "spec.disruption.budgets[0].nodes"),
        (
            pool_document(disruption={**AT_ONCE, "budgets": [{"reasons": ["Bored"]}]}),
            "spec.disruption.budgets[0].reasons[0]",
        ),
        (
            pool_document(disruption={**AT_ONCE, "budgets": [{"schedule": "@daily"}]}),
            "spec.disruption.budgets[0].duration",
        ),
        (
            pool_document(disruption={**AT_ONCE, "budgets": [{"duration": "1h"}]}),
            "spec.disruption.budgets[0].schedule",
        ),
        (
            pool_document(disruption={**AT_ONCE, "budgets": [{"schedule": "@daily", "duration": "30s"}]}),
            "spec.disruption.budgets[0].duration",
        ),
        (
            pool_document(disruption={**AT_ONCE, "budgets": [{"schedule": "0 25 * * *", "duration": "1h"}]}),
            "spec.disruption.budgets[0].schedule",
        ),
    ],
)  # fmt: skip
def test_each_fault_names_its_field(raw: dict[str, Any], field: str) -> None:
    """NP-01..NP-13, NP-17, NP-21: repeated here for servers without our schema."""
    (fault,) = faults(raw)
    assert fault.startswith(f"{field}: ")


def test_all_faults_are_told_at_once() -> None:
    raw = pool_document(
        {"labels": {keys.NODE_POOL: "x"}}, {"expireAfter": 5, "nodeClassRef": {}}, weight="high"
    )
    assert len(faults(raw)) == 6


def test_a_static_pool_may_limit_its_nodes() -> None:
    """NP-13: static pools."""
    pool = parsed(pool_document(replicas=0, limits={"nodes": 5}))
    assert pool.is_static
    assert pool.limits == {"nodes": 5}


def test_a_disruption_needs_consolidate_after() -> None:
    """As in Karpenter's own definition; a pool that says nothing of disruption has all defaults."""
    assert faults(pool_document(disruption={})) == ["spec.disruption.consolidateAfter: is required"]
    assert parsed(pool_document()).budgets == (Budget("10%"),)


def test_no_budget_at_all_is_something_else_than_the_default() -> None:
    """NP-10: budgets."""
    assert parsed(pool_document(disruption={**AT_ONCE, "budgets": []})).budgets == ()
    assert parsed(pool_document(disruption={**AT_ONCE, "budgets": None})).budgets == (
        Budget("10%"),
    )


def test_values_that_no_offering_has_are_a_warning() -> None:
    """NP-18: known values."""
    raw = pool_document(
        {"labels": {keys.AWS_PREFIX + "instance-tenancy": "host"}},
        {
            "requirements": [
                {
                    "key": keys.CAPACITY_TYPE,
                    "operator": "In",
                    "values": ["spot", "Spot", "reserved"],
                }
            ]
        },
    )
    assert faults(raw) == []
    tenancy, capacity = map(str, warnings_of(raw))
    assert "instance-tenancy]: 'host' is none of default, dedicated" in tenancy
    assert capacity.startswith("spec.template.spec.requirements[0].values: 'Spot' is none of")


def test_the_status_is_ours_and_may_be_rubbish() -> None:
    assert parsed(pool_document(status={"resources": {"cpu": []}})).usage == {}
    assert parsed(pool_document(status="none")).usage == {}


def test_a_file_has_neither_uid_nor_generation() -> None:
    raw = pool_document()
    raw["metadata"] = {"name": "one"}
    pool = parsed(raw)
    assert (pool.uid, pool.generation, pool.terminating) == ("", 0, False)


def drift_hash(**template: Any) -> str:
    return parsed(pool_document(template=template)).hash


def test_the_hash_tells_what_drifts() -> None:
    """NP-19: the template without its requirements; nothing else."""
    plain = parsed(pool_document()).hash
    assert plain
    requirements = [{"key": "x", "operator": "Exists"}]
    assert drift_hash(requirements=requirements) == plain
    assert (
        parsed(
            pool_document(weight=5, limits={"cpu": 1}, disruption={**AT_ONCE, "budgets": []})
        ).hash
        == plain
    )
    assert drift_hash(nodeClassRef={**REFERENCE, "name": "other"}) != plain
    assert drift_hash(expireAfter="1h") != plain
    assert parsed(pool_document({"labels": {"a": "b"}})).hash != plain


def test_another_spelling_is_no_drift() -> None:
    """NP-19: lists are sets, and 60m is 1h."""
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]
    assert drift_hash(taints=taints) == drift_hash(taints=taints[::-1])
    assert drift_hash(expireAfter="60m") == drift_hash(expireAfter="1h")
    assert drift_hash(expireAfter="720h") == parsed(pool_document()).hash


def test_a_provisioner_becomes_a_node_pool() -> None:
    """MAP-04: it had no budgets, so that all its machines could be disrupted at once."""
    pool = NodePool(
        "",
        "one",
        V1ALPHA5,
        node_class="default",
        consolidate_after_seconds=30,
        limits={"cpu": 1500},
    )
    written = node_pool_object(pool)
    assert written.notes == ()
    assert written.document == {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "one"},
        "spec": {
            "template": {
                "spec": {"requirements": [], "nodeClassRef": REFERENCE, "expireAfter": "Never"}
            },
            "disruption": {
                "consolidationPolicy": WHEN_EMPTY,
                "consolidateAfter": "30s",
                "budgets": [{"nodes": "100%"}],
            },
            "limits": {"cpu": "1500m"},
        },
    }
    again = parsed(written.document)
    assert msgspec.structs.replace(again, generation_api=V1ALPHA5, budgets=(), hash="") == pool


def test_what_v1_cannot_say_is_noted() -> None:
    """MAP-04: from v1alpha5 to v1; MAP-02: expiration differs by generation."""
    pool = NodePool("", "one", V1ALPHA5, node_class="d", kubelet={"maxPods": 9}, expire_seconds=60)
    kubelet, expiry = map(str, node_pool_object(pool).notes)
    assert "EC2NodeClass.spec.kubelet" in kubelet
    assert "ttlSecondsUntilExpired" in expiry


@pytest.mark.parametrize("policy", ["FewestNodes", "LowestCost", "Balanced"])
def test_a_pool_may_ask_for_its_packing_policy(policy: str) -> None:
    """design: the annotation dovetail.sh/packing; it survives being written."""
    annotations = {keys.PACKING_ANNOTATION: policy}
    raw = pool_document()
    raw["metadata"] = {**raw["metadata"], "annotations": annotations}
    pool = parsed(raw)
    assert pool.packing == policy
    assert node_pool_object(pool).document["metadata"]["annotations"] == annotations


def test_a_packing_policy_that_there_is_not_is_refused_by_name() -> None:
    raw = pool_document()
    raw["metadata"] = {**raw["metadata"], "annotations": {keys.PACKING_ANNOTATION: "Cheapest"}}
    (fault,) = parse_node_pool(raw).faults
    assert "dovetail.sh/packing" in str(fault)
    assert "FewestNodes, LowestCost" in str(fault)


def test_an_annotation_of_ours_that_has_no_meaning_is_a_warning() -> None:
    annotations = {
        "dovetail.sh/headrom": "10%",
        "dovetail.sh/minimum": "nodes: 1",
        "example.com/dovetail.sh": "mine",
    }
    raw = pool_document()
    raw["metadata"]["annotations"] = annotations
    (found,) = warnings(raw)
    assert str(found) == (
        "metadata.annotations[dovetail.sh/headrom]: has no meaning and is ignored; did you mean dovetail.sh/headroom?"
    )
